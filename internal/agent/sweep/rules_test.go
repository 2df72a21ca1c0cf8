package sweep

import (
	"fmt"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// disks returns a plan of two disks.
func disks() shard.Plan {
	return shard.NewPlan([]shard.Member{{Name: "disk1", Weight: 1}, {Name: "disk2", Weight: 1}})
}

func TestReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	owned := map[string]string{} // disk → a key that is on it
	for i := 0; len(owned) < 2; i++ {
		key := fmt.Sprint("http://example.com/", i)
		owned[disks().Tree().Owner([]byte(key))] = key
	}
	rules := func(change func(*Rules)) Rules {
		r := Rules{
			Stale: 24 * time.Hour, Handover: 10 * time.Minute, Since: ago(71 * time.Minute),
			Owners: NewOwners(0, nil, []shard.Plan{disks()}),
		}
		change(&r)
		return r
	}
	entry := func(disk string, change func(*index.Entry)) index.Entry {
		e := index.Entry{Key: owned[disk], Stored: ago(72 * time.Minute), ValidUntil: now.Add(time.Hour)}
		change(&e)
		return e
	}
	fresh, same := func(*index.Entry) {}, func(*Rules) {}
	for name, tt := range map[string]struct {
		rules Rules
		entry index.Entry
		want  Reason
	}{
		"fresh": {rules(same), entry("disk1", fresh), Keep},
		"stale, as the policy allows": {
			rules(same), entry("disk1", func(e *index.Entry) { e.ValidUntil = ago(25 * time.Hour) }), Keep,
		},
		"stale for longer": {
			rules(same), entry("disk1", func(e *index.Entry) { e.ValidUntil = ago(25*time.Hour + time.Second) }), Stale,
		},
		"stale, as it says itself": {
			rules(same), entry("disk1", func(e *index.Entry) { e.ValidUntil, e.Stale = ago(49*time.Hour), 48*time.Hour }), Keep,
		},
		"stale for longer than it says itself": {
			rules(same), entry("disk1", func(e *index.Entry) { e.ValidUntil, e.Stale = ago(50*time.Hour), 48*time.Hour }), Stale,
		},
		"the policy allows nothing": {
			rules(func(r *Rules) { r.Stale = 0 }),
			entry("disk1", func(e *index.Entry) { e.ValidUntil = ago(61 * time.Minute) }), Stale,
		},
		"of another disk": {rules(same), entry("disk2", fresh), Foreign},
		"of another disk, stored since": {
			rules(same), entry("disk2", func(e *index.Entry) { e.Stored = ago(71 * time.Minute) }), Keep,
		},
		"the owners are new": {rules(func(r *Rules) { r.Since = ago(70 * time.Minute) }), entry("disk2", fresh), Keep},
		"a longer hand-over": {rules(func(r *Rules) { r.Handover = time.Hour }), entry("disk2", fresh), Keep},
		"no hand-over": {
			rules(func(r *Rules) { r.Handover = 0 }), entry("disk2", fresh), Foreign,
		},
		"a hand-over that lasts": {rules(func(r *Rules) { r.IsHandover = true }), entry("disk2", fresh), Keep},
		"of a generation that is not used": {
			rules(func(r *Rules) { r.Generations = []int64{0, 12} }),
			entry("disk1", func(e *index.Entry) { e.Generation = 11 }), Hidden,
		},
		"of a generation that is used": {
			rules(func(r *Rules) { r.Generations = []int64{0, 12} }),
			entry("disk1", func(e *index.Entry) { e.Generation = 12 }), Keep,
		},
		"nobody owns keys": {rules(func(r *Rules) { r.Owners = Owners{} }), entry("disk2", fresh), Keep},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.rules.Reason("disk1", tt.entry, now); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSince checks that Since stays the same after an edit that does not change the owners.
func TestSince(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	three, _ := fleet.Of(3).Plan()
	first := Rules{Owners: NewOwners(0, []shard.Plan{three}, nil)}.After(Rules{}, begun)
	edited := Rules{Stale: time.Hour, Owners: NewOwners(0, []shard.Plan{three}, nil)}.After(first, begun.Add(time.Hour))
	if !first.Since.Equal(begun) || !edited.Since.Equal(begun) || edited.Stale != time.Hour {
		t.Errorf("first since %s, after an edit since %s", first.Since, edited.Since)
	}
	two, _ := fleet.Of(2).Plan()
	for name, owners := range map[string]Owners{
		"a pod less": NewOwners(0, []shard.Plan{two}, nil), "another pod": NewOwners(1, []shard.Plan{three}, nil),
		"a plan for disks": NewOwners(0, nil, []shard.Plan{three}), "no owners": {},
	} {
		later := begun.Add(2 * time.Hour)
		if got := (Rules{Owners: owners}).After(edited, later); !got.Since.Equal(later) {
			t.Errorf("%s: since %s, want %s", name, got.Since, later)
		}
	}
}

// TestOwners checks the keys of a pod that is away. The pod must keep exactly the keys that it owns when all pods are
// present.
func TestOwners(t *testing.T) {
	t.Parallel()
	all := fleet.Of(3)
	away := fleet.Fleet{Owners: fleet.Owners{Members: all.Members, Away: []int{2}}}
	now, _ := away.Plan()
	nominal, _ := all.Plan()
	owners := NewOwners(2, []shard.Plan{now, nominal}, []shard.Plan{disks()})
	kept, onDisk := 0, disks().Tree()
	for i := range 100 {
		key := fmt.Sprint("http://example.com/", i)
		owner, _, _, _ := all.Holders(key)
		want := owner == 2
		disk, other := "disk1", "disk2"
		if onDisk.Owner([]byte(key)) == other {
			disk, other = other, disk
		}
		if owners.Have(disk, key) != want || owners.Have(other, key) {
			t.Fatalf("%s is pod %d's, on %s: the pod that is away has it %t on it, and %t on %s",
				key, owner, disk, owners.Have(disk, key), owners.Have(other, key), other)
		}
		if want {
			kept++
		}
	}
	if kept == 0 {
		t.Error("the pod has no keys")
	}
}
