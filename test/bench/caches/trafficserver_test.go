package main

import "testing"

// TestMemoryOfTrafficServer checks, for each case, that Traffic Server's RAM cache gets most of the memory that its
// connections do not need.
func TestMemoryOfTrafficServer(t *testing.T) {
	const others = 100 << 20
	for _, group := range scenarios {
		for _, s := range group {
			b := bench{scenario: s}
			b.setConditions()
			fragment, ram := memoryOfTrafficServer(b.conditions)
			limit := b.memoryMebibytes << 20
			perConnection := min(s.size*16/10, fragment*26/10)
			if left := limit*9/10 - others - b.connections*perConnection; ram < left/2 {
				t.Errorf("%s: a RAM cache of %d MiB, and %d MiB are left for it", s.name, ram>>20, left>>20)
			}
			if ram > limit {
				t.Errorf("%s: a RAM cache of %d MiB in %d MiB", s.name, ram>>20, limit>>20)
			}
		}
	}
}
