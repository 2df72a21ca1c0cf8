package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Disks are the disks that shared the keys of a pod before the last change of the disks. If a key has moved to
// another disk of the pod, the pod fetches the object of the key from the key's disk in this list.
type Disks struct {
	// Members are the disks with their weights, sorted by name.
	Members []Disk `json:"members,omitempty"`
	// Until is the time at which the pods stop fetching objects from these disks. The operator then removes the list.
	Until time.Time `json:"until,omitzero"`
	// UnderWay is true until all pods have applied the change. When it becomes false, the hand-over begins once more,
	// with a later Until.
	UnderWay bool `json:"underWay,omitempty"`
}

// Disk is a disk of an earlier plan.
type Disk struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// MaxDisks is the maximum number of disks in an earlier plan, the same as in a spec.
const MaxDisks = 32

// IsZero returns true if the list is empty, because the disks have not changed recently.
func (d Disks) IsZero() bool { return len(d.Members) == 0 }

// Plan returns the earlier plan. ok is false if there is none.
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

// check returns an error for a list that the operator would not write.
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

// DisksInput contains everything on which [DecideDisks] depends.
type DisksInput struct {
	State State
	// Had are the disks of the revision that the pods have run so far. Wanted are the disks of the revision that is
	// being rolled out. When the rollout has reached all pods for which it waits, both lists are the same.
	Had, Wanted []shard.Member
	// Starts is true if a pod was created recently and is not ready.
	Starts   bool
	Handover time.Duration
	Now      time.Time
}

// DecideDisks decides from which disks pods fetch the objects of keys that a change moves to other disks. The pods do
// so from the moment at which the first pod applies the change until the hand-over of the last pod ends. after is the
// time to wait until the next call, if nothing changes before; 0 means that no further call is needed.
func DecideDisks(in DisksInput) (next State, after time.Duration) {
	next = in.State
	before, disks := disksOf(in.Had), in.State.Disks
	until, isOver := in.Now.Add(in.Handover).UTC().Truncate(time.Second), !disks.Until.After(in.Now)
	switch {
	case !slices.Equal(before, disksOf(in.Wanted)) && in.Handover > 0 && len(before) > 0:
		if isOver || !disks.UnderWay || !slices.Equal(before, disks.Members) {
			disks = Disks{Members: before, Until: until, UnderWay: true}
		}
	case disks.UnderWay && in.Handover > 0:
		if !in.Starts {
			disks.UnderWay = false
		}
		if isOver || !in.Starts {
			disks.Until = until
		}
	case isOver, in.Handover == 0:
		disks = Disks{}
	default: // a shorter hand-over in the spec takes effect at once
		disks.Until = earliest(disks.Until, until)
	}
	if !disks.IsZero() {
		after = disks.Until.Sub(in.Now)
	}
	if !disks.equal(in.State.Disks) {
		next.Disks = disks
		next.Serial++
	}
	return next, after
}

func (d Disks) equal(other Disks) bool {
	return slices.Equal(d.Members, other.Members) && d.Until.Equal(other.Until) && d.UnderWay == other.UnderWay
}

// disksOf returns the members as disks, sorted by name.
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
