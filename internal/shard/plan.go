package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/utils/lru"
)

// Slots is the number of slots into which the key space is cut. Fewer slots make fewer ranges but move more keys: with
// 2,000 slots a changed weight moves 1.17 times the minimum, with 10,000 it moves 1.08 times the minimum.
const Slots = 10000

// Disk is one disk as sharding sees it.
type Disk struct {
	// Name identifies the disk. Names are unique; slots follow the name, not the position.
	Name string
	// Weight is the disk's share in relation to the sum of all weights, at least 1. Any unit will do, bytes too.
	Weight int64
}

// Plan says which disk owns each slot. It is immutable and safe for concurrent use.
type Plan struct {
	disks []Disk   // sorted by name
	owner []uint16 // slot → index into disks
	share []int    // index into disks → number of slots
}

func newPlan(disks []Disk, owners []int) Plan {
	owner, share := make([]uint16, len(owners)), make([]int, len(disks))
	for slot, i := range owners {
		owner[slot] = uint16(i) //nolint:gosec // there are fewer disks than Slots
		share[i]++
	}
	return Plan{disks: disks, owner: owner, share: share}
}

// NewPlan assigns every slot to a disk. The order of disks does not matter. It panics on what validation excludes: no
// disk, more than Slots disks, a weight below 1, weights whose sum overflows. A new plan takes milliseconds, so the
// last ones are remembered: most calls have the same disks.
func NewPlan(disks []Disk) Plan {
	sorted := slices.Clone(disks)
	slices.SortFunc(sorted, func(a, b Disk) int { return strings.Compare(a.Name, b.Name) })
	key := fmt.Sprint(sorted)
	if plan, ok := remembered.Get(key); ok {
		return plan.(Plan)
	}
	plan := planOf(sorted)
	remembered.Add(key, plan)
	return plan
}

// remembered has the last plans by their disks. A plan takes some 20 KB.
var remembered = lru.New(128)

func planOf(sorted []Disk) Plan {
	all := make([]int, Slots)
	for slot := range all {
		all[slot] = slot
	}
	owner := make([]int, Slots)
	assign(owner, all, sorted, quotas(sorted, Slots))
	return newPlan(sorted, owner)
}

// Without gives the slots of the failed disks, and only those, to the others in proportion to their weights. A disk
// that returns gets exactly its own slots again, as p stays the same. ok is false if no disk is left.
func (p Plan) Without(failed ...string) (degraded Plan, ok bool) {
	var survivors []Disk
	var position []int // survivor → index into p.disks
	for i, d := range p.disks {
		if !slices.Contains(failed, d.Name) {
			survivors, position = append(survivors, d), append(position, i)
		}
	}
	if len(survivors) == 0 {
		return Plan{}, false
	}
	var orphans []int
	for slot, i := range p.owner {
		if slices.Contains(failed, p.disks[i].Name) {
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
	return newPlan(p.disks, owner), true
}

// Owner is the name of the disk that a slot belongs to.
func (p Plan) Owner(slot int) string { return p.disks[p.owner[slot]].Name }

// Share is the part of the key space that a disk owns, in hundredths of a percent; 0 for a name that is not in the
// plan.
func (p Plan) Share(disk string) int {
	if i := p.index(disk); i >= 0 {
		return p.share[i]
	}
	return 0
}

// Disks are the names of all disks, sorted.
func (p Plan) Disks() []string {
	names := make([]string, len(p.disks))
	for i, d := range p.disks {
		names[i] = d.Name
	}
	return names
}

// Move is a part of the key space that goes from one disk to another.
type Move struct {
	From, To string
	// Slots is how much, in hundredths of a percent.
	Slots int
}

// Moves are the slots whose owner in q is not the one in p. Their keys become MISSes. They are sorted by the disks'
// names.
func (p Plan) Moves(q Plan) []Move {
	counts := make([]int, len(p.disks)*len(q.disks))
	for slot := range Slots {
		counts[int(p.owner[slot])*len(q.disks)+int(q.owner[slot])]++
	}
	var moves []Move
	for from, disk := range p.disks {
		for to, other := range q.disks {
			if slots := counts[from*len(q.disks)+to]; slots > 0 && disk.Name != other.Name {
				moves = append(moves, Move{From: disk.Name, To: other.Name, Slots: slots})
			}
		}
	}
	return moves
}

// Moved is the sum of the Moves, in hundredths of a percent.
func (p Plan) Moved(q Plan) int {
	moved := 0
	for _, m := range p.Moves(q) {
		moved += m.Slots
	}
	return moved
}

// Hash identifies which slot is on which disk.
func (p Plan) Hash() string {
	sum := sha256.New()
	for slot := range Slots {
		_, _ = io.WriteString(sum, p.Owner(slot)+"\n")
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// index is a disk's position in p.disks, or -1.
func (p Plan) index(disk string) int {
	return slices.IndexFunc(p.disks, func(d Disk) bool { return d.Name == disk })
}

// quotas divides slots among the disks in proportion to their weights, by the method of the largest remainder. Ties go
// by name. If there are enough slots, each disk gets at least one.
func quotas(disks []Disk, slots int) []int {
	var total uint64
	for _, d := range disks {
		if d.Weight < 1 {
			panic("shard: weight below 1 of disk " + d.Name)
		}
		total += uint64(d.Weight)
	}
	quota, remainder := make([]int, len(disks)), make([]uint64, len(disks))
	left := slots
	for i, d := range disks {
		high, low := bits.Mul64(uint64(d.Weight), uint64(slots)) //nolint:gosec // neither is negative
		share, rest := bits.Div64(high, low, total)
		quota[i], remainder[i] = int(share), rest //nolint:gosec // share is at most slots
		left -= quota[i]
	}
	byRemainder := make([]int, len(disks))
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
	if slots >= len(disks) {
		feedTheSmallest(quota)
	}
	return quota
}

// feedTheSmallest takes slots from the largest quota for disks that would have none. A disk without a slot would be
// mounted and never used.
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
