package shard

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
)

// NewSequence assigns every slot to a member. All members have the same weight. The members join and leave at the end
// of a sequence, like the pods of a StatefulSet. The order of the names matters. The numbers of slots of any two
// members differ by at most one. A member that joins takes its slots from all other members, and no other slots move.
// When the member leaves, its slots go back to their former owners. So the number of slots that move is the minimum.
// With many members, weighted rendezvous hashing would move many more slots, because exact shares leave it little
// choice. The idea comes from jump consistent hashing (Lamping and Veach, 2014).
//
// NewSequence panics if there is no name, or if there are more than Slots names. For a hundred members, it takes some
// hundredths of a second, so it remembers the last plans.
func NewSequence(names []string) Plan {
	key := "sequence\x00" + strings.Join(names, "\x00")
	if plan, ok := remembered.Get(key); ok {
		return plan.(Plan)
	}
	slots := [][]int{make([]int, Slots)} // by member
	for slot := range Slots {
		slots[0][slot] = slot
	}
	for n := 2; n <= len(names); n++ {
		slots = append(slots, join(slots, names[n-1]))
	}
	// A plan's members are sorted by name.
	sorted := slices.Sorted(slices.Values(names))
	members, owner := make([]Member, len(names)), make([]int, Slots)
	for i, name := range sorted {
		members[i] = Member{Name: name, Weight: 1}
		for _, slot := range slots[slices.Index(names, name)] {
			owner[slot] = i
		}
	}
	plan := newPlan(members, owner)
	remembered.Add(key, plan)
	return plan
}

// join takes the slots of a new member from the other members, and returns these slots. The other members keep the
// slots that have a low rank for the new member.
func join(slots [][]int, name string) (taken []int) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	seed := mix(h.Sum64())
	n := len(slots) + 1
	for i, own := range slots {
		keeps := Slots / n
		if i < Slots%n {
			keeps++
		}
		slices.SortFunc(own, func(a, b int) int { return cmp.Or(cmp.Compare(rank(seed, a), rank(seed, b)), a-b) })
		slots[i], taken = own[:keeps:keeps], append(taken, own[keeps:]...)
	}
	return taken
}

// rank returns the rank of a slot for a member. Each member has a different ranking of the slots.
func rank(seed uint64, slot int) uint64 {
	return mix(seed ^ mix(uint64(slot)+0x9e3779b97f4a7c15)) //nolint:gosec // a slot is not negative
}
