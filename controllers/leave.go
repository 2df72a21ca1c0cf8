package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// leave finds the disks that the spec no longer has and that stay until others have filled from them.
func (p *pass) leave() {
	if p.offered.stable == nil || effective.Handover(p.cacheNode.Spec.Routing) == 0 {
		return
	}
	removal := edit.Removal{
		Stable: p.offered.stable.Spec.Disks, Wanted: p.cacheNode.Spec.Disks,
		Source: p.isSource, MayBegin: p.mayLeave,
	}
	if p.offered.candidate != nil {
		removal.Candidate = p.offered.candidate.Spec.Disks
	}
	p.leaving = edit.Leaving(removal)
}

// isSource is true for a disk from which others fill.
func (p *pass) isSource(disk string) bool {
	had := p.offered.sharing.Disks
	return had.Until.After(p.now) &&
		slices.ContainsFunc(had.Members, func(d fleet.Disk) bool { return d.Name == disk })
}

// mayLeave is true for a disk that a pod can read, if the agents of all pods that are ready know disks that leave. A
// new operator has not asked them yet, and then decides nothing else.
func (p *pass) mayLeave(disk string) bool {
	if p.unknown {
		return true
	}
	readable := false
	p.oldAgents = nil
	for i := range p.pods {
		seen := p.agents[p.pods[i].Name]
		if storage.IsReady(&p.pods[i]) && !slices.Contains(seen.Report.Features, agentapi.FeatureLeaving) {
			p.oldAgents = append(p.oldAgents, p.pods[i].Name)
		}
		readable = readable || slices.ContainsFunc(seen.Report.Disks, func(d agentapi.DiskReport) bool {
			return d.Name == disk && (d.State == v1alpha1.DiskHealthy || d.State == v1alpha1.DiskStarting)
		})
	}
	return readable && len(p.oldAgents) == 0
}

// checkLeaving refuses a disk that has the name of a leaving disk, but another StorageClass or path. The pods still use
// the claim of the leaving disk.
func (p *pass) checkLeaving() *status.Problem {
	var offered []v1alpha1.Disk
	for _, revision := range []*agentapi.Revision{p.offered.stable, p.offered.candidate} {
		if revision != nil {
			offered = append(offered, revision.Spec.Disks...)
		}
	}
	for i, d := range p.cacheNode.Spec.Disks {
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

// withLeaving is the CacheNode with the disks that leave. It is the CacheNode itself if there are none.
func (p *pass) withLeaving() *v1alpha1.CacheNode {
	if len(p.leaving) == 0 {
		return p.cacheNode
	}
	c := p.cacheNode.DeepCopy()
	c.Spec.Disks = append(c.Spec.Disks, p.leaving...)
	return c
}

// tellLeaving says in status.tuning which disks leave, and when. An event says that one leaves at once.
func (r *CacheNodeReconciler) tellLeaving(p *pass) {
	if len(p.oldAgents) > 0 {
		r.Events.Eventf(p.cacheNode, nil, corev1.EventTypeWarning, v1alpha1.ReasonAgentTooOld, "Remove",
			"a removed disk leaves at once, as the agents of %s are too old", status.Listed(p.oldAgents))
	}
	until := p.sharing.State.Disks.Until
	if len(p.leaving) == 0 || until.IsZero() {
		return
	}
	var names []string
	for _, d := range p.leaving {
		names = append(names, d.Name)
	}
	p.effective.Tuning = append(p.effective.Tuning, fmt.Sprintf(
		"disks: %s stays until %s so that the other disks fill from it; then the pods are replaced without it",
		strings.Join(names, ", "), until.UTC().Format(time.RFC3339)))
}
