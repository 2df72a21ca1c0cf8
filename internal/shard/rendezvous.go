package shard

import (
	"container/heap"
	"hash/fnv"
	"math"
)

// assign gives each slot to one of the members, and writes the member's index to owner[slot]. No member gets more slots
// than its quota. The sum of the quotas must be equal to the number of slots.
//
// Each slot proposes to the members in the order of their scores. A full member keeps the slots that have the best
// scores for this member (Gale and Shapley, 1962). Slots and members rank each other by the same score. So the result
// is the same as with a greedy algorithm that goes through all pairs of a slot and a member, beginning with the best
// score. The result does not depend on the order of the proposals.
func assign(owner, slots []int, members []Member, quota []int) {
	seeds := make([]uint64, len(members))
	for i, m := range members {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Name)) // never fails
		seeds[i] = mix(h.Sum64())
	}
	kept := make([]proposals, len(members))
	for _, slot := range slots {
		// If a member refuses a slot, the slot tries the next best member. The score of that member is lower than the score
		// of the refused proposal.
		limit := proposal{slot: slot, member: -1, score: math.Inf(1)}
		for {
			best := proposal{slot: slot, member: -1, score: math.Inf(-1)}
			for i, m := range members {
				p := proposal{slot: limit.slot, member: i, score: score(seeds[i], limit.slot, m.Weight)}
				if limit.beats(p) && p.beats(best) {
					best = p
				}
			}
			to := best.member
			heap.Push(&kept[to], best)
			if len(kept[to]) <= quota[to] {
				break
			}
			limit = heap.Pop(&kept[to]).(proposal)
		}
	}
	for _, ps := range kept {
		for _, p := range ps {
			owner[p.slot] = p.member
		}
	}
}

// score returns the score of a member for a slot. The expected number of slots for which a member has the best score is
// in proportion to its weight.
func score(seed uint64, slot int, weight int64) float64 {
	u := (float64(rank(seed, slot)>>12) + 0.5) / (1 << 52) // in (0, 1), exact
	return float64(weight) / -logarithm(u)
}

// mix returns the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// logarithm returns ln(x) for x in (0, 1). The plan must be the same on every architecture, but the results of math.Log
// can differ. Some architectures have an assembly version of math.Log. Go may also compute a product and a sum with a
// single rounding, unless there is a type conversion between them.
func logarithm(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	s := (fraction - 1) / (fraction + 1) // ln(fraction) = 2 artanh(s), |s| ≤ 1/3
	square := float64(s * s)
	sum := 0.0
	for n := 23; n >= 1; n -= 2 {
		sum = float64(float64(sum*square) + 1/float64(n))
	}
	return float64(float64(2*s*sum) + float64(float64(exponent)*math.Ln2))
}

// proposal is a slot that proposes to a member.
type proposal struct {
	slot, member int
	score        float64
}

// beats returns true if proposal p is better than proposal q. Two proposals are never equal: if their scores are equal,
// which hardly ever happens, the member and the slot decide.
func (p proposal) beats(q proposal) bool {
	switch {
	case p.score != q.score:
		return p.score > q.score
	case p.member != q.member:
		return p.member < q.member
	}
	return p.slot < q.slot
}

// proposals is a heap with the worst proposal on top.
type proposals []proposal

func (h proposals) Len() int           { return len(h) }
func (h proposals) Less(i, j int) bool { return h[j].beats(h[i]) }
func (h proposals) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *proposals) Push(x any)        { *h = append(*h, x.(proposal)) }
func (h *proposals) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
