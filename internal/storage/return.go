package storage

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// returnDisks releases pods if a user has asked to readmit or replace one of their disks, or if one of their missing
// disks is back. A request with a time in the future waits until that time.
func (p *plan) returnDisks() {
	back, missing := p.back(), map[PodDisk]Missing{}
	for _, m := range p.Missing {
		missing[m.PodDisk] = m
	}
	var list []Release
	for _, name := range p.podNames() {
		claims, pod := p.claimsOf(name), p.pod(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			claim, key := claims[disk], PodDisk{name, disk}
			m, isMissing := missing[key]
			release := Release{Name: name, Claims: []*corev1.PersistentVolumeClaim{claim}, Evict: true}
			switch {
			case p.isDue(p.Verbs.Replace[key], claim.CreationTimestamp.Time):
				release.Reason, release.Note = "DiskReplaced", fmt.Sprintf("%s of %s gets another volume", disk, name)
			case isMissing && (p.isDue(p.Verbs.Readmit[key], m.Since) || back[key]):
				release.Reason = "DiskBack"
				release.Note = fmt.Sprintf("%s of %s is back on %s and takes its place again", disk, name, m.Node)
			case pod != nil && p.isRepaired(key, pod):
				release.Claims = nil
				release.Reason = "Evicted"
				release.Note = fmt.Sprintf("%s makes room for a new pod, so that its repaired %s can come back", name, disk)
			default:
				continue
			}
			list = append(list, release)
		}
	}
	for _, r := range merged(list) {
		p.release(&p.Keep.Releases, r)
	}
}

// isRepaired reports whether a disk has failed, and a user has asked to readmit the disk after the failure and after
// the creation of the pod.
func (p *plan) isRepaired(key PodDisk, pod *corev1.Pod) bool {
	report, asked := p.Disks[key], p.Verbs.Readmit[key]
	return report.State == v1alpha1.DiskFailed && !report.Since.IsZero() &&
		p.isDue(asked, report.Since) && p.isDue(asked, pod.CreationTimestamp.Time)
}

// isDue reports whether the time asked has come and is later than the time other. asked is the time of a user's
// request. If asked is in the future, isDue schedules a pass for that time.
func (p *plan) isDue(asked, other time.Time) bool {
	if left := asked.Sub(p.Now); !asked.IsZero() && left > 0 {
		p.again(left)
		return false
	}
	return !asked.IsZero() && asked.After(other)
}

// merged combines several releases of the same pod into one release.
func merged(list []Release) []Release {
	var out []Release
	for _, r := range list {
		i := slices.IndexFunc(out, func(o Release) bool { return o.Name == r.Name })
		if i < 0 {
			out = append(out, r)
			continue
		}
		out[i].Claims = append(out[i].Claims, r.Claims...)
		out[i].Note += "; " + r.Note
	}
	return out
}
