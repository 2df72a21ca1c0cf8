package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// leaving contains the leaving disks: disks that the spec no longer contains, and that stay in the pods until the
// hand-over of their keys ends.
type leaving struct {
	// cacheNode is a copy of the CacheNode with the leaving disks added. Without leaving disks, it is the CacheNode
	// itself.
	cacheNode *v1alpha1.CacheNode
	// oldAgents are the pods whose agents do not support leaving disks. The list is set only if a removed disk had to
	// leave at once because of these agents.
	oldAgents []string
}

// leave returns the leaving disks.
func leave(s scope, o observed) leaving {
	l := leaving{cacheNode: s.cacheNode}
	if o.offered.stable == nil || effective.Handover(s.cacheNode.Spec.Routing) == 0 {
		return l
	}
	removal := edit.Removal{
		Stable: o.offered.stable.Spec.Disks, Wanted: s.cacheNode.Spec.Disks,
		Source: func(disk string) bool { return o.offered.isSource(disk, s.now) },
		MayBegin: func(disk string) (may bool) {
			may, l.oldAgents = o.mayLeave(disk)
			return may
		},
	}
	if o.offered.candidate != nil {
		removal.Candidate = o.offered.candidate.Spec.Disks
	}
	if disks := edit.Leaving(removal); len(disks) > 0 {
		l.cacheNode = s.cacheNode.DeepCopy()
		l.cacheNode.Spec.Disks = append(l.cacheNode.Spec.Disks, disks...)
	}
	return l
}

// isSource returns true for a disk from which other disks fetch objects at the moment.
func (o offered) isSource(disk string, now time.Time) bool {
	had := o.sharing.Disks
	return had.Until.After(now) && slices.ContainsFunc(had.Members, func(d fleet.Disk) bool { return d.Name == disk })
}

// mayLeave returns true if a pod can read the disk and the agents of all ready pods support leaving disks. old are the
// ready pods whose agents do not support leaving disks. If this operator has just started and has not asked the agents
// yet, mayLeave returns true, and the pass decides nothing else.
func (o observed) mayLeave(disk string) (may bool, old []string) {
	if o.agents.unknown {
		return true, nil
	}
	readable := false
	for i := range o.pods {
		seen := o.agents.byPod[o.pods[i].Name]
		if storage.IsReady(&o.pods[i]) && !slices.Contains(seen.Report.Features, agentapi.FeatureLeaving) {
			old = append(old, o.pods[i].Name)
		}
		readable = readable || slices.ContainsFunc(seen.Report.Disks, func(d agentapi.DiskReport) bool {
			return d.Name == disk && (d.State == v1alpha1.DiskHealthy || d.State == v1alpha1.DiskStarting)
		})
	}
	return readable && len(old) == 0, old
}

// checkLeaving refuses a disk that has the name of a leaving disk but another StorageClass or path. The pods still
// use the claim of the leaving disk.
func checkLeaving(disks []v1alpha1.Disk, o offered) error {
	var offered []v1alpha1.Disk
	for _, revision := range []*agentapi.Revision{o.stable, o.candidate} {
		if revision != nil {
			offered = append(offered, revision.Spec.Disks...)
		}
	}
	for i, d := range disks {
		for _, old := range offered {
			isSame := ptr.Deref(d.StorageClassName, "") == ptr.Deref(old.StorageClassName, "") &&
				ptr.Deref(d.LocalPath, v1alpha1.LocalPath{}).Path == ptr.Deref(old.LocalPath, v1alpha1.LocalPath{}).Path
			if d.Name == old.Name && effective.Leaves(old) && !isSame {
				return &status.Problem{
					Reason: v1alpha1.ReasonInvalidSpec, Stalled: true,
					Message: fmt.Sprintf("spec.disks[%d]: the removed disk %s is still in the pods, with another "+
						"storageClassName or localPath: give the new disk another name, or wait until status.tuning no longer "+
						"names the old one", i, d.Name),
				}
			}
		}
	}
	return nil
}

// tuning returns a line for status.tuning that names the leaving disks and the time at which they leave. It returns
// nothing if there are none.
func (l leaving) tuning(until time.Time) []string {
	var names []string
	for _, d := range l.cacheNode.Spec.Disks {
		if effective.Leaves(d) {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 || until.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf(
		"disks: %s stays until %s so that the other disks fill from it; then the pods are replaced without it",
		strings.Join(names, ", "), until.UTC().Format(time.RFC3339))}
}
