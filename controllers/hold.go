package controllers

import (
	"context"
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// holdMovement finds out which keys the edit moves. It stops the pass before anything changes if that is more than the
// spec allows and nobody has acknowledged it.
func (r *CacheNodeReconciler) holdMovement(_ context.Context, p *pass) error {
	if p.offered.stable == nil {
		return nil
	}
	m := edit.Movement(*p.offered.stable, p.target.Revision)
	p.movement = status.Movement(m, p.cached)
	if p.movement == nil {
		return nil
	}
	// The bytes that were reported when the movement began stand, because the disks fill and empty while the keys move.
	if said := p.cacheNode.Status.KeyMovement; said != nil && said.Name == p.movement.Name {
		p.movement.Bytes = said.Bytes
	}
	limit := p.cacheNode.Spec.Rollout.MaxKeyMovement
	if limit == nil || m.Slots <= int(*limit)*100 || p.cacheNode.Annotations[v1alpha1.AnnotationAcknowledged] == m.Name {
		return nil
	}
	p.held = true
	return &status.Problem{
		Reason: v1alpha1.ReasonKeyMovement, Accepted: true,
		Message: fmt.Sprintf("%s, more than rollout.maxKeyMovement, %d%%; nothing is changed until it is acknowledged: "+
			"kubectl annotate --overwrite cachenode %s %s=%s",
			status.DescribeMovement(p.movement), *limit, p.cacheNode.Name, v1alpha1.AnnotationAcknowledged, m.Name),
	}
}
