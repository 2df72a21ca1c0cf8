package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Disks are the disks that the keys of a pod were shared among before the last change, from which a pod fills keys that
// have moved to another of its disks.
type Disks struct {
	// Members are the disks with their weights, sorted by name.
	Members []Disk `json:"members,omitempty"`
	// Until is when the pods stop filling from them. The operator then removes the list.
	Until time.Time `json:"until,omitzero"`
}

// Disk is a disk of an earlier plan.
type Disk struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// MaxDisks is how many disks an earlier plan can have: as many as a spec.
const MaxDisks = 32

// IsZero is true if there was no change lately.
func (d Disks) IsZero() bool { return len(d.Members) == 0 }

// Plan is the earlier plan. ok is false if there is none.
func (d Disks) Plan() (plan shard.Plan, ok bool) {
	if d.IsZero() {
		return plan, false
	}
	members := make([]shard.Member, len(d.Members))
	for i, m := range d.Members {
		members[i] = shard.Member{Name: m.Name, Weight: m.Weight}
	}
	return shard.NewPlan(members), true
}

// check returns an error for a list that the operator does not write.
func (d Disks) check() error {
	if len(d.Members) > MaxDisks {
		return fmt.Errorf("%d disks, and %d are possible", len(d.Members), MaxDisks)
	}
	for i, m := range d.Members {
		if m.Weight < 1 || m.Weight > 1<<50 || m.Name == "" || i > 0 && m.Name <= d.Members[i-1].Name {
			return fmt.Errorf("the disks %v are not sorted, or have no weight", d.Members)
		}
	}
	return nil
}

// DecideDisks says from which disks keys are filled that a change moves to others. had are the disks of the revision
// that all pods have run, wanted those of the revision that is rolled out; they are the same when that is done. After
// is when to decide again; 0 means never.
func DecideDisks(
	s State, had, wanted []shard.Member, handover time.Duration, now time.Time,
) (next State, after time.Duration) {
	before := disksOf(had)
	switch {
	case !slices.Equal(before, disksOf(wanted)) && handover > 0 && len(before) > 0:
		if !slices.Equal(before, s.Disks.Members) || !s.Disks.Until.After(now) {
			s.Disks = Disks{Members: before, Until: now.Add(handover).UTC().Truncate(time.Second)}
			s.Serial++
		}
	case !s.Disks.IsZero() && !s.Disks.Until.After(now):
		s.Disks = Disks{}
		s.Serial++
	}
	if !s.Disks.IsZero() {
		after = s.Disks.Until.Sub(now)
	}
	return s, after
}

// disksOf are members, sorted.
func disksOf(members []shard.Member) (disks []Disk) {
	for _, m := range members {
		disks = append(disks, Disk(m))
	}
	slices.SortFunc(disks, func(a, b Disk) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return disks
}
