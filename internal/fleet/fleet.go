// Package fleet decides which pods of a CacheNode own keys. It is pure.
//
// The package may import naming and shard. For each new reason why a pod owns or does not own keys, add a field to
// Pod and a case to Decide.
package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/shard"
)

// MaxMembers is the maximum number of pods that can share keys. With more pods, nginx's configuration would grow
// beyond what was measured.
const MaxMembers = 128

// Owners are the pods among which keys are shared.
type Owners struct {
	// Members are the ordinals of the pods for which the plan is made, sorted.
	Members []int `json:"members,omitempty"`
	// Away are the members that own no keys at the moment, sorted. A member that comes back gets exactly its own keys
	// again.
	Away []int `json:"away,omitempty"`
}

// Fleet describes the pods with which a pod shares keys. The operator writes it, and the agent reads it.
type Fleet struct {
	Owners
	// Previous are the owners before the last change. During a hand-over, pods fetch requested objects of moved keys
	// from these owners. Previous is empty if there is no hand-over.
	Previous Owners `json:"previous,omitzero"`
	// Zones are the owners in each zone, if every zone has its own copy of a key. Owners and Previous are then empty.
	Zones map[string]Zone `json:"zones,omitempty"`
	// Disks are the disks among which the keys of a pod were shared before the last change of the disks; empty if there
	// was no recent change.
	Disks Disks `json:"disks,omitzero"`
	// Serial grows with each change, so that a pod that gets two fleets knows which one is newer.
	Serial int64 `json:"serial,omitempty"`
}

// Zone contains the owners in one zone.
type Zone struct {
	Owners
	Previous Owners `json:"previous,omitzero"`
}

// Of returns a fleet in which the first pods of the StatefulSet own keys. pods is the number of these pods.
func Of(pods int) (f Fleet) {
	for i := range min(pods, MaxMembers) {
		f.Members = append(f.Members, i)
	}
	return f
}

// For returns the fleet of a pod, which is the fleet of the pod's zone if there are zones. It is empty for a pod that
// is in no zone.
func (f Fleet) For(pod int) Fleet {
	if f.Zones == nil {
		return f
	}
	return f.In(f.ZoneOf(pod))
}

// In returns the fleet of a zone.
func (f Fleet) In(zone string) Fleet {
	z := f.Zones[zone]
	return Fleet{Owners: z.Owners, Previous: z.Previous, Disks: f.Disks, Serial: f.Serial}
}

// ZoneOf returns the zone in which a pod owns keys, or owned keys before the last change; "" if there is none.
func (f Fleet) ZoneOf(pod int) string {
	before := ""
	for _, name := range slices.Sorted(maps.Keys(f.Zones)) {
		z := f.Zones[name]
		if slices.Contains(z.Members, pod) {
			return name
		}
		if slices.Contains(z.Previous.Members, pod) {
			before = name
		}
	}
	return before
}

// Owning returns the number of pods that own keys.
func (f Fleet) Owning() int {
	n := len(f.Present())
	for _, z := range f.Zones {
		n += len(z.Present())
	}
	return n
}

// IsZero returns true if no pod owns keys.
func (o Owners) IsZero() bool { return len(o.Members) == 0 }

// Present returns the members that are not away.
func (o Owners) Present() []int {
	return slices.DeleteFunc(slices.Clone(o.Members), func(pod int) bool { return slices.Contains(o.Away, pod) })
}

// Plan returns the plan that gives keys to the pods. ok is false if no pod owns keys.
func (o Owners) Plan() (plan shard.Plan, ok bool) {
	if len(o.Present()) == 0 {
		return shard.Plan{}, false
	}
	members := make([]string, len(o.Members))
	for i, pod := range o.Members {
		members[i] = Name(pod)
	}
	plan = shard.NewSequence(members)
	if len(o.Away) == 0 {
		return plan, true
	}
	away := make([]string, len(o.Away))
	for i, pod := range o.Away {
		away[i] = Name(pod)
	}
	return plan.Without(away...)
}

// Name returns the name of a pod in a plan. It does not contain the CacheNode's name, so that all plans with the same
// number of pods are the same.
func Name(pod int) string { return fmt.Sprintf("p%d", pod) }

// KeyPrefix is the text before each key when the plan of the pods hashes the key. The plan of the disks hashes keys
// without this text, so the two plans are independent of each other.
const KeyPrefix = "pod "

// Read parses a fleet. The empty text is a fleet without members.
func Read(text string) (Fleet, error) {
	var f Fleet
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Fleet{}, fmt.Errorf("fleet: %w", err)
	}
	if err := f.Disks.check(); err != nil {
		return Fleet{}, fmt.Errorf("fleet: %w", err)
	}
	for _, o := range f.all() {
		if err := o.check(); err != nil {
			return Fleet{}, fmt.Errorf("fleet: %w", err)
		}
	}
	return f, nil
}

// all returns the present and the previous owners of all zones.
func (f Fleet) all() []Owners {
	list := []Owners{f.Owners, f.Previous}
	for _, z := range f.Zones {
		list = append(list, z.Owners, z.Previous)
	}
	return list
}

// check returns an error for owners that the operator would not write.
func (o Owners) check() error {
	if len(o.Members) > MaxMembers {
		return fmt.Errorf("%d members, and %d are possible", len(o.Members), MaxMembers)
	}
	for _, list := range [][]int{o.Members, o.Away} {
		for i, pod := range list {
			if pod < 0 || i > 0 && pod <= list[i-1] {
				return fmt.Errorf("the ordinals %v are not sorted", list)
			}
		}
	}
	for _, pod := range o.Away {
		if !slices.Contains(o.Members, pod) {
			return fmt.Errorf("pod %d is away and no member", pod)
		}
	}
	return nil
}

// String returns the text that [Read] parses.
func (f Fleet) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // not possible for these fields
	}
	return string(text)
}
