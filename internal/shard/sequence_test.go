package shard

import "testing"

// TestSequence checks the shares of pods. It also checks that only the minimum number of keys moves when a pod joins or
// leaves.
func TestSequence(t *testing.T) {
	t.Parallel()
	plan := NewSequence(pods(1))
	for n := 2; n <= min(128, rounds/4); n++ { // make test-all checks all numbers of pods
		more := NewSequence(pods(n))
		for _, name := range more.Members() {
			if share := more.Share(name); share != Slots/n && share != Slots/n+1 {
				t.Errorf("%d pods: %s has %d slots", n, name, share)
			}
		}
		for change, m := range map[string]Movement{"joins": Between(plan, more), "leaves": Between(more, plan)} {
			if m.Slots != m.Least {
				t.Errorf("%d pods, the last one %s: %d slots move, and %d must", n, change, m.Slots, m.Least)
			}
		}
		plan = more
	}
}

// TestSequenceIsFixed checks that the plan of pods is the same as in earlier versions. Another plan would move the keys
// of every CacheNode when its agents are upgraded.
func TestSequenceIsFixed(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		2: "7b3c2c2067ed", 3: "96d25635586d", 10: "5e98426c108f", 100: "a36dab91805b",
	} {
		if got := NewSequence(pods(n)).Hash(); got != want {
			t.Errorf("the plan of %d pods is %s, want %s", n, got, want)
		}
	}
}
