package shard

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomDisks returns 1 to 32 disks with weights from 1 to 100.
func randomDisks(rng *rand.Rand) []Member {
	disks := make([]Member, 1+rng.IntN(32))
	for i := range disks {
		disks[i] = Member{Name: "disk" + strconv.Itoa(i) + "x" + strconv.Itoa(rng.IntN(1000)), Weight: 1 + rng.Int64N(100)}
	}
	return disks
}

// rounds is the number of random sets of disks for which a test checks a property. make test uses the first of the sets
// that make test-all uses.
var rounds = func() int {
	if os.Getenv("CACHENODE_TEST_LONG") != "" {
		return 1000
	}
	return 200
}()

func owners(p Plan) []string {
	names := make([]string, Slots)
	for slot := range names {
		names[slot] = p.Owner(slot)
	}
	return names
}

func TestPlanProperties(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		disks := randomDisks(rng)
		plan := NewPlan(disks)

		var weights int64
		for _, d := range disks {
			weights += d.Weight
		}
		covered := 0
		for _, d := range disks {
			share := plan.Share(d.Name)
			covered += share
			want := float64(d.Weight) / float64(weights) * Slots
			if share < 1 {
				t.Fatalf("%v: %s has no slot", disks, d.Name)
			}
			if math.Abs(float64(share)-want) > 10 { // 0.1 percentage points
				t.Fatalf("%v: %s has %d hundredths of a percent, want %.2f", disks, d.Name, share, want)
			}
		}
		if covered != Slots {
			t.Fatalf("%v: the shares add up to %d, want %d", disks, covered, Slots)
		}

		shuffled := slices.Clone(disks)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if plan.Moved(NewPlan(shuffled)) != 0 {
			t.Fatalf("%v: another order gives another plan", disks)
		}
		slices.SortFunc(shuffled, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
		if round%8 == 0 && plan.Moved(planOf(shuffled)) != 0 { // planOf does not remember plans
			t.Fatalf("%v: made a second time it is another plan", disks)
		}
		checkTree(t, plan)
	}
}

// checkTree computes the owner of each slot from the ranges of both levels, and compares the owners with the plan.
func checkTree(t *testing.T, plan Plan) {
	t.Helper()
	tree := plan.Tree()
	layOut := func(s Split, end int) []string {
		var names []string
		for i, r := range s {
			width := r.Width
			if (width == 0) != (i == len(s)-1) {
				t.Fatalf("range %d of %d has width %d", i, len(s), width)
			}
			if width == 0 {
				width = end - len(names)
			}
			names = append(names, slices.Repeat([]string{r.Value}, width)...)
		}
		return names
	}
	got := layOut(tree.Root, Slots)
	for i, g := range tree.Groups {
		if len(g.Split) > groupSlots || len(tree.Root) > groupSlots {
			t.Fatalf("%d and %d ranges in a block, want at most %d", len(tree.Root), len(g.Split), groupSlots)
		}
		first, end := i*groupSlots, (i+1)*groupSlots
		if got[first] != g.Name || got[end-1] != g.Name {
			t.Fatalf("group %s is not at slots %d to %d of the root", g.Name, first, end)
		}
		copy(got[first:end], layOut(g.Split, end)[first:])
	}
	if diff := cmp.Diff(owners(plan), got); diff != "" {
		t.Fatalf("the tree is not the plan (-plan +tree):\n%s", diff)
	}
}

// TestMovement checks that every kind of operation moves at most 1.10 times the minimum number of slots. The minimum is
// half the sum of the changes in quota. The test compares sums over all rounds, so that small changes do not count more
// than large ones.
func TestMovement(t *testing.T) {
	operations := map[string]func(*rand.Rand, []Member) []Member{
		"add": func(rng *rand.Rand, disks []Member) []Member {
			return append(disks, Member{Name: "new", Weight: 1 + rng.Int64N(100)})
		},
		"remove": func(rng *rand.Rand, disks []Member) []Member {
			i := rng.IntN(len(disks))
			return slices.Delete(disks, i, i+1)
		},
		"change weight": func(rng *rand.Rand, disks []Member) []Member {
			disks[rng.IntN(len(disks))].Weight = 1 + rng.Int64N(100)
			return disks
		},
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 4))
			var moved, least, ranges, worstRanges int
			worst := 0.0
			for range rounds {
				before := randomDisks(rng)
				after := operation(rng, slices.Clone(before))
				if len(after) == 0 {
					continue
				}
				p, q := NewPlan(before), NewPlan(after)
				changes := 0
				names := append(p.Members(), q.Members()...)
				slices.Sort(names)
				for _, disk := range slices.Compact(names) {
					changes += max(p.Share(disk)-q.Share(disk), q.Share(disk)-p.Share(disk))
				}
				n := p.Moved(q)
				moved, least = moved+n, least+changes/2
				if changes >= 2*Slots/100 {
					worst = max(worst, float64(n)/float64(changes/2))
				}
				r := q.Tree().Ranges()
				ranges, worstRanges = ranges+r, max(worstRanges, r)
			}
			ratio := float64(moved) / float64(least)
			t.Logf("moved %.3f times the least (at worst %.2f, where at least 1%% has to move); %d ranges a plan, at most %d",
				ratio, worst, ranges/rounds, worstRanges)
			if ratio > 1.10 {
				t.Errorf("moved %.3f times the least, want at most 1.10", ratio)
			}
		})
	}
}

func TestFailedDisksKeysAreSpread(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range rounds {
		disks := randomDisks(rng)
		plan := NewPlan(disks)
		var failed []string
		var weights, lost int64
		for _, d := range disks {
			if rng.IntN(3) == 0 {
				failed = append(failed, d.Name)
				lost += int64(plan.Share(d.Name))
			} else {
				weights += d.Weight
			}
		}
		degraded, ok := plan.Without(failed...)
		if ok != (len(failed) < len(disks)) {
			t.Fatalf("%v without %v: ok is %t", disks, failed, ok)
		}
		if !ok {
			continue
		}
		for slot := range Slots {
			was, is := plan.Owner(slot), degraded.Owner(slot)
			if slices.Contains(failed, is) {
				t.Fatalf("%v without %v: slot %d is on %s", disks, failed, slot, is)
			}
			if was != is && !slices.Contains(failed, was) {
				t.Fatalf("%v without %v: slot %d left the healthy %s", disks, failed, slot, was)
			}
		}
		for _, d := range disks {
			if slices.Contains(failed, d.Name) {
				continue
			}
			gain := degraded.Share(d.Name) - plan.Share(d.Name)
			want := float64(lost) * float64(d.Weight) / float64(weights)
			// A difference of one slot comes from rounding. A larger difference is possible only because every remaining disk
			// must get at least one slot.
			if math.Abs(float64(gain)-want) > 1+float64(len(disks)) {
				t.Fatalf("%v without %v: %s gains %d slots, want %.1f", disks, failed, d.Name, gain, want)
			}
		}
	}
}

func TestQuotasFollowWeights(t *testing.T) {
	tests := map[string]struct {
		disks []Member
		want  []int
	}{
		"thirds: the rest goes by name":       {[]Member{{"a", 1}, {"b", 1}, {"c", 1}}, []int{3334, 3333, 3333}},
		"weights in bytes":                    {[]Member{{"a", 1 << 40}, {"b", 3 << 40}}, []int{2500, 7500}},
		"no disk is left out":                 {[]Member{{"a", 1}, {"b", 1_000_000}}, []int{1, 9999}},
		"the sum may fill all of 64 bits":     {[]Member{{"a", math.MaxInt64}, {"b", math.MaxInt64}}, []int{5000, 5000}},
		"a single disk has the whole of them": {[]Member{{"a", 7}}, []int{10000}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, quotas(tt.disks, Slots)); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanIsStable compares the plan with the plan of earlier versions. If the hash changed, every cache would become
// empty.
func TestPlanIsStable(t *testing.T) {
	plan := NewPlan([]Member{{"disk1", 1}, {"disk2", 1}, {"disk3", 2}})
	sum := murmurHash2([]byte(fingerprint(plan)))
	if want := uint32(0xfdbe6185); sum != want {
		t.Errorf("the plan's fingerprint is %#x, want %#x: an upgrade would move keys", sum, want)
	}
}

func fingerprint(p Plan) string {
	s := ""
	for slot := range Slots {
		s += p.Owner(slot)[4:]
	}
	return s
}

func BenchmarkNewPlan(b *testing.B) {
	for _, n := range []int{3, 32} {
		disks := make([]Member, n)
		for i := range disks {
			disks[i] = Member{Name: "disk" + strconv.Itoa(i), Weight: int64(1 + i)}
		}
		b.Run(strconv.Itoa(n)+" disks", func(b *testing.B) {
			for b.Loop() {
				planOf(disks) // planOf remembers no plans
			}
		})
	}
}
