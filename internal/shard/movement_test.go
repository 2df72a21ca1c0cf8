package shard

import (
	"math/rand/v2"
	"testing"
)

// TestAnEditMovesHardlyMoreThanItMust makes random edits. It checks that the moves explain all changes of the shares,
// and that only slightly more slots move than the minimum.
func TestAnEditMovesHardlyMoreThanItMust(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		var before []Member
		for i := range 2 + random.IntN(8) {
			before = append(before, Member{Name: string(rune('a' + i)), Weight: int64(100 + random.IntN(900))})
		}
		after := append([]Member{{Name: "new", Weight: 500}}, before...)
		if random.IntN(2) == 0 {
			before, after = after, before
		}
		m := Between(NewPlan(before), NewPlan(after))
		used := map[string]int64{}
		gained := map[string]int{}
		for _, move := range m.Moves {
			gained[move.From] -= move.Slots
			gained[move.To] += move.Slots
		}
		for _, d := range append(m.From.Members(), m.To.Members()...) {
			if m.To.Share(d)-m.From.Share(d) != gained[d] {
				t.Errorf("seed %d: %s has %d before and %d after, and the moves say %d",
					seed, d, m.From.Share(d), m.To.Share(d), gained[d])
			}
			used[d] = int64(m.From.Share(d)) << 20 // the disk is filled in proportion to its share
		}
		if float64(m.Slots) > 1.15*float64(m.Least)+10 {
			t.Errorf("seed %d: %d move, and any plan must move %d", seed, m.Slots, m.Least)
		}
		if got, want := m.Bytes(used)>>20, int64(m.Slots); got < want-1 || got > want {
			t.Errorf("seed %d: %d MiB move, want %d", seed, got, want)
		}
		if same := Between(NewPlan(before), NewPlan(before)); same.Slots != 0 || same.Name != "" {
			t.Errorf("seed %d: nothing changed, and %d move", seed, same.Slots)
		}
	}
}
