package storage

import (
	"maps"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Bare are the disks with a localPath of which a pod has had the folder alone for longer than patience: nothing was mounted
// there when the pod started. unmounted has those that the agents report as such, since when. A placeholder is to take
// their places, as no pod sees what is mounted later. after is when to look again; 0 for never.
func Bare(s State, unmounted map[PodDisk]time.Time, patience time.Duration) (list []PodDisk, after time.Duration) {
	if patience == 0 {
		return nil, 0
	}
	for ordinal := range s.replicas() {
		name := naming.Pod(s.CacheNode.Name, ordinal)
		claims := s.ClaimsOf(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			since, known := unmounted[PodDisk{name, disk}]
			i := slices.IndexFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk && d.LocalPath != nil })
			if !known || i < 0 || IsPlaceholder(claims[disk]) {
				continue
			}
			if left := patience - s.Now.Sub(since); left > 0 {
				after = earlier(after, left+time.Second)
				continue
			}
			list = append(list, PodDisk{name, disk})
		}
	}
	return list, after
}
