package edit

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Removal is the input of [Leaving].
type Removal struct {
	// Stable are the disks of the revision that all pods have run. Candidate are the disks of the revision that is being
	// rolled out, if there is one. Wanted are the disks of the spec.
	Stable, Candidate, Wanted []v1alpha1.Disk
	// Source returns true for a disk from which other disks fetch objects at the moment.
	Source func(disk string) bool
	// MayBegin returns true if a removed disk may become a leaving disk: the disk can be read, and the agents of all
	// ready pods support leaving disks.
	MayBegin func(disk string) bool
}

// Leaving returns the leaving disks: disks that the spec no longer contains, and that stay in the pods until the
// hand-over ends. They own no keys, and the other disks fetch objects from them. A disk leaves only once: if the pods
// no longer have a disk, it does not come back.
//
// The result is empty if the spec has a disk that the pods lack. The pods are then replaced at once, without the old
// disks.
func Leaving(r Removal) (leaving []v1alpha1.Disk) {
	for _, d := range r.Wanted {
		if find(r.Stable, d.Name) == nil {
			return nil
		}
	}
	for _, d := range slices.Concat(r.Stable, r.Candidate) {
		if find(r.Wanted, d.Name) != nil || find(leaving, d.Name) != nil {
			continue
		}
		if len(r.Candidate) > 0 && find(r.Candidate, d.Name) == nil {
			continue // the pods no longer have it
		}
		stays := r.MayBegin
		if r.leaves(d.Name) {
			stays = r.Source
		}
		if stays(d.Name) {
			d = *d.DeepCopy()
			d.Weight = new(int32(0))
			leaving = append(leaving, d)
		}
	}
	return leaving
}

// leaves returns true for a disk that is already leaving.
func (r Removal) leaves(name string) bool {
	for _, d := range slices.Concat(r.Stable, r.Candidate) {
		if d.Name == name && effective.Leaves(d) {
			return true
		}
	}
	return false
}

// find returns the disk with the given name; nil if there is none.
func find(disks []v1alpha1.Disk, name string) *v1alpha1.Disk {
	i := slices.IndexFunc(disks, func(d v1alpha1.Disk) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &disks[i]
}
