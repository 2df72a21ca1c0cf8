package shard

import (
	"fmt"
	"testing"
)

// pods returns the names of n pods.
func pods(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	return names
}

// TestStandIns checks that a stand-in is the member that gets the slot when its owner goes, even if another member is
// already gone. It also checks that the values of Pairs contain the owner and the stand-in.
func TestStandIns(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 10, 30} {
		plan := NewSequence(pods(n))
		plans := map[string]Plan{"all": plan}
		if n > 2 {
			plans["without p1"], _ = plan.Without("p1")
		}
		for name, plan := range plans {
			standIns, ok := plan.StandIns()
			if !ok {
				t.Fatalf("%d pods, %s: no stand-ins", n, name)
			}
			gone := "p0"
			left := []string{gone}
			if name != "all" {
				left = append(left, "p1")
			}
			rest, _ := plan.Without(left...)
			pairs, ofOwners, ofStandIns := plan.Pairs(standIns), plan.Tree(), standIns.Tree()
			for slot := range Slots {
				owner, second := plan.Owner(slot), standIns.Owner(slot)
				if owner == second || standIns.Owner(slot) == "p1" && name != "all" {
					t.Fatalf("%d pods, %s: slot %d of %s has the stand-in %s", n, name, slot, owner, second)
				}
				if owner == gone && rest.Owner(slot) != second {
					t.Fatalf("%d pods, %s: slot %d goes to %s, and its stand-in is %s", n, name, slot, rest.Owner(slot), second)
				}
			}
			for i := range 2000 {
				key := fmt.Appendf(nil, "pod http://www.example.com/%d", i)
				owner, second := Pair(pairs.Owner(key))
				if wantOwner, want := ofOwners.Owner(key), ofStandIns.Owner(key); owner != wantOwner || second != want {
					t.Fatalf("%s: the pair is %s and %s, want %s and %s", key, owner, second, wantOwner, want)
				}
			}
		}
	}
	if _, ok := NewSequence(pods(1)).StandIns(); ok {
		t.Error("one pod has a stand-in")
	}
}
