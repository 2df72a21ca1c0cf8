package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// leave finds the disks that the spec no longer has and that stay until others have filled from them.
func (p *pass) leave() {
	if p.offered.stable == nil || tuning.Handover(p.cacheNode.Spec.Routing) == 0 {
		return
	}
	for _, seen := range p.agents {
		if !seen.Answered.IsZero() && !slices.Contains(seen.Report.Features, agentapi.FeatureLeaving) {
			return
		}
	}
	disks := edit.Leaving(p.offered.stable.Spec.Disks, p.cacheNode.Spec.Disks, p.offered.sharing.Disks.Until, p.now)
	p.leaving = slices.DeleteFunc(disks, func(d v1alpha1.Disk) bool { return p.isUseless(d.Name) })
}

// isUseless is true for a disk that no pod can read.
func (p *pass) isUseless(disk string) bool {
	useless := false
	for _, seen := range p.agents {
		for _, d := range seen.Report.Disks {
			if d.Name != disk {
				continue
			}
			if d.State == v1alpha1.DiskHealthy || d.State == v1alpha1.DiskStarting {
				return false
			}
			useless = true
		}
	}
	return useless
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

// tellLeaving says in status.tuning which disks leave, and when.
func (p *pass) tellLeaving() {
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
