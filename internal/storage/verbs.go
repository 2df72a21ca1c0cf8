package storage

import (
	"fmt"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Verbs are requests that users make by annotations of a CacheNode: to drain, readmit or replace a disk of a pod.
type Verbs struct {
	// Drained are the disks to take out of use, by pod.
	Drained map[string][]string
	// Readmit and Replace are the times of the requests. A request with a time in the future waits until this time.
	Readmit, Replace map[PodDisk]time.Time
	// Problems describe annotations that name no disk of a pod or no valid time.
	Problems []string
}

// ReadVerbs reads the verbs from a CacheNode's annotations. The lists of the result are sorted.
func ReadVerbs(cacheNode *v1alpha1.CacheNode) Verbs {
	v := Verbs{Drained: map[string][]string{}, Readmit: map[PodDisk]time.Time{}, Replace: map[PodDisk]time.Time{}}
	for key, value := range cacheNode.Annotations {
		verb, pod, disk, ok := v1alpha1.ParseVerb(key)
		if !ok {
			continue
		}
		known := slices.ContainsFunc(cacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
		if _, ok := naming.Ordinal(cacheNode.Name, pod); !ok || !known {
			v.Problems = append(v.Problems, fmt.Sprintf("annotation %s names no disk of a pod of this CacheNode", key))
			continue
		}
		if verb == v1alpha1.Drain {
			v.Drained[pod] = append(v.Drained[pod], disk)
			continue
		}
		at, err := time.Parse(time.RFC3339, value)
		if err != nil {
			v.Problems = append(v.Problems, fmt.Sprintf("annotation %s: %q is no time such as 2026-11-21T12:00:00Z", key, value))
			continue
		}
		if verb == v1alpha1.Readmit {
			v.Readmit[PodDisk{pod, disk}] = at
		} else {
			v.Replace[PodDisk{pod, disk}] = at
		}
	}
	for _, disks := range v.Drained {
		slices.Sort(disks)
	}
	slices.Sort(v.Problems)
	return v
}
