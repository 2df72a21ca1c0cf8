package edit

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Leaving returns the disks that the spec no longer has and that stay in the pods for now. They have no keys, and the
// other disks fill from them until the given time, at which the hand-over ends. running are the disks of the revision
// that all pods have run, wanted those of the spec.
//
// It is empty if the spec has a disk that the pods lack: the pods are replaced for that at once, without the old disks.
func Leaving(running, wanted []v1alpha1.Disk, until, now time.Time) (leaving []v1alpha1.Disk) {
	has := func(disks []v1alpha1.Disk, name string) bool {
		return slices.ContainsFunc(disks, func(d v1alpha1.Disk) bool { return d.Name == name })
	}
	for _, d := range wanted {
		if !has(running, d.Name) {
			return nil
		}
	}
	for _, d := range running {
		isOver := tuning.Leaves(d) && !until.After(now)
		if has(wanted, d.Name) || isOver {
			continue
		}
		d = *d.DeepCopy()
		d.Weight = new(int32(0))
		leaving = append(leaving, d)
	}
	return leaving
}
