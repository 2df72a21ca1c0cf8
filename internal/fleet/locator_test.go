package fleet

import (
	"fmt"
	"testing"
)

// TestLocator checks the holders of keys against the plans that nginx gets.
func TestLocator(t *testing.T) {
	t.Parallel()
	away := Of(3)
	away.Away = []int{1}
	handOver := Of(3)
	handOver.Previous = Of(2).Owners
	for name, f := range map[string]Fleet{
		"three pods": Of(3), "one is away": away, "hand-over": handOver, "one pod": Of(1), "nobody": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locator, counts := f.Locator(), map[string]int{}
			for i := range 200 {
				key := fmt.Sprintf("http://www.example.com/%d", i)
				owner, standIn, previous, ok := locator.Holders(key)
				if ok != (f.Owning() > 0) {
					t.Fatalf("%s is owned: %t", key, ok)
				}
				if got, want := owner, ownerBy(f.Owners, key); got != want {
					t.Errorf("the owner of %s is %d, want %d", key, got, want)
				}
				if got, want := previous, ownerBy(f.Previous, key); got != want {
					t.Errorf("the previous owner of %s is %d, want %d", key, got, want)
				}
				if hasStandIn := standIn >= 0 && standIn != owner; hasStandIn != (f.Owning() > 1) {
					t.Errorf("the stand-in for %s of %d is %d", key, owner, standIn)
				}
				counts[fmt.Sprint(owner, standIn)]++
			}
			if n := f.Owning(); n > 1 && len(counts) != n*(n-1) {
				t.Errorf("owners and stand-ins: %v", counts)
			}
		})
	}
}

// ownerBy returns the owner of a key in a plan, or -1.
func ownerBy(o Owners, key string) (pod int) {
	plan, ok := o.Plan()
	if !ok {
		return -1
	}
	if _, err := fmt.Sscanf(plan.Tree().Owner([]byte(KeyPrefix+key)), "p%d", &pod); err != nil {
		return -1
	}
	return pod
}
