package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/utils/lru"
)

// Slots is the number of slots into which the key space is divided. With fewer slots, there are fewer ranges, but more
// keys move. With 2,000 slots, a change of a weight moves 1.17 times the minimum number of keys. With 10,000 slots, the
// same change moves 1.08 times the minimum.
const Slots = 10000

// Member is a disk or a pod to which slots are given.
type Member struct {
	// Name identifies the member. Names are unique. The slots of a member depend on its name, not on its position.
	Name string
	// Weight is at least 1. The share of a member is its weight divided by the sum of all weights. So weights can have any
	// unit, such as bytes.
	Weight int64
}

// Plan defines which member owns each slot. It is immutable and safe for concurrent use.
type Plan struct {
	members []Member // sorted by name
	owner   []uint16 // slot → index into members
	share   []int    // index into members → number of slots
}

func newPlan(members []Member, owners []int) Plan {
	owner, share := make([]uint16, len(owners)), make([]int, len(members))
	for slot, i := range owners {
		owner[slot] = uint16(i) //nolint:gosec // there are fewer members than Slots
		share[i]++
	}
	return Plan{members: members, owner: owner, share: share}
}

// NewPlan assigns every slot to a member. The order of members does not matter. NewPlan panics if there is no member,
// or if there are more than Slots members. It also panics if a weight is below 1, or if the sum of the weights
// overflows. Validation excludes these cases. The computation takes milliseconds, and most calls have the same members.
// So NewPlan remembers the last plans.
func NewPlan(members []Member) Plan {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	key := fmt.Sprint(sorted)
	if plan, ok := remembered.Get(key); ok {
		return plan.(Plan)
	}
	plan := planOf(sorted)
	remembered.Add(key, plan)
	return plan
}

// remembered contains the last plans, by their members. A plan takes about 20 KB of memory.
var remembered = lru.New(128)

func planOf(sorted []Member) Plan {
	all := make([]int, Slots)
	for slot := range all {
		all[slot] = slot
	}
	owner := make([]int, Slots)
	assign(owner, all, sorted, quotas(sorted, Slots))
	return newPlan(sorted, owner)
}

// Without returns a plan in which only the slots of the failed members go to the other members, in proportion to their
// weights. The plan p itself stays the same. So a member that returns gets exactly its own slots again. ok is false if
// no member is left.
func (p Plan) Without(failed ...string) (degraded Plan, ok bool) {
	var survivors []Member
	var position []int // survivor → index into p.members
	for i, m := range p.members {
		if !slices.Contains(failed, m.Name) {
			survivors, position = append(survivors, m), append(position, i)
		}
	}
	if len(survivors) == 0 {
		return Plan{}, false
	}
	var orphans []int
	for slot, i := range p.owner {
		if slices.Contains(failed, p.members[i].Name) {
			orphans = append(orphans, slot)
		}
	}
	adopted := make([]int, Slots)
	assign(adopted, orphans, survivors, quotas(survivors, len(orphans)))
	owner := make([]int, Slots)
	for slot, i := range p.owner {
		owner[slot] = int(i)
	}
	for _, slot := range orphans {
		owner[slot] = position[adopted[slot]]
	}
	return newPlan(p.members, owner), true
}

// Owner returns the name of the member to which a slot belongs.
func (p Plan) Owner(slot int) string { return p.members[p.owner[slot]].Name }

// Share returns the part of the key space that a member owns, in hundredths of a percent; 0 for a name that is not in
// the plan.
func (p Plan) Share(name string) int {
	if i := p.index(name); i >= 0 {
		return p.share[i]
	}
	return 0
}

// Members returns the names of all members, sorted.
func (p Plan) Members() []string {
	names := make([]string, len(p.members))
	for i, m := range p.members {
		names[i] = m.Name
	}
	return names
}

// Move is a part of the key space that moves from one member to another.
type Move struct {
	From, To string
	// Slots is the size of the part, in hundredths of a percent.
	Slots int
}

// Moves returns the slots that have one owner in p and another owner in q. Requests for the keys of these slots become
// MISSes. The moves are sorted by the members' names.
func (p Plan) Moves(q Plan) []Move {
	counts := make([]int, len(p.members)*len(q.members))
	for slot := range Slots {
		counts[int(p.owner[slot])*len(q.members)+int(q.owner[slot])]++
	}
	var moves []Move
	for from, member := range p.members {
		for to, other := range q.members {
			if slots := counts[from*len(q.members)+to]; slots > 0 && member.Name != other.Name {
				moves = append(moves, Move{From: member.Name, To: other.Name, Slots: slots})
			}
		}
	}
	return moves
}

// Moved returns the sum of all moves, in hundredths of a percent.
func (p Plan) Moved(q Plan) int {
	moved := 0
	for _, m := range p.Moves(q) {
		moved += m.Slots
	}
	return moved
}

// Hash returns a text that identifies which slot has which owner.
func (p Plan) Hash() string {
	var owners bytes.Buffer
	for slot := range Slots {
		owners.WriteString(p.Owner(slot))
		owners.WriteByte('\n')
	}
	sum := sha256.Sum256(owners.Bytes())
	return hex.EncodeToString(sum[:])[:12]
}

// index returns a member's position in p.members, or -1.
func (p Plan) index(name string) int {
	return slices.IndexFunc(p.members, func(m Member) bool { return m.Name == name })
}

// quotas divides the slots among the members in proportion to their weights, with the largest remainder method. If
// remainders are equal, the member whose name comes first gets a slot first. If there are enough slots, each member
// gets at least one.
func quotas(members []Member, slots int) []int {
	var total uint64
	for _, m := range members {
		if m.Weight < 1 {
			panic("shard: weight below 1 of  " + m.Name)
		}
		total += uint64(m.Weight)
	}
	quota, remainder := make([]int, len(members)), make([]uint64, len(members))
	left := slots
	for i, m := range members {
		high, low := bits.Mul64(uint64(m.Weight), uint64(slots)) //nolint:gosec // neither is negative
		share, rest := bits.Div64(high, low, total)
		quota[i], remainder[i] = int(share), rest //nolint:gosec // share is at most slots
		left -= quota[i]
	}
	byRemainder := make([]int, len(members))
	for i := range byRemainder {
		byRemainder[i] = i
	}
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		switch {
		case remainder[a] > remainder[b]:
			return -1
		case remainder[a] < remainder[b]:
			return 1
		}
		return 0
	})
	for _, i := range byRemainder[:left] {
		quota[i]++
	}
	if slots >= len(members) {
		feedTheSmallest(quota)
	}
	return quota
}

// feedTheSmallest gives one slot to each member that has no slot, and takes it from the member with the largest quota.
// Otherwise a disk without slots would be mounted but never used.
func feedTheSmallest(quota []int) {
	for i, q := range quota {
		if q > 0 {
			continue
		}
		largest := 0
		for j := range quota {
			if quota[j] > quota[largest] {
				largest = j
			}
		}
		quota[largest]--
		quota[i]++
	}
}
