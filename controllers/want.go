package controllers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// wanted is what the spec asks for. If the spec is not accepted, only the fields are set that were computed before the
// fault was found.
type wanted struct {
	// effective is the CacheNode with the operator's choices for the fields that the spec leaves open, and with the
	// leaving disks. It is empty for a spec that is not valid.
	effective effective.CacheNode
	// certificate describes the certificate of listen.tls; nil if there is none.
	certificate *v1alpha1.CertificateStatus
	// target contains no revision if the configuration could not be rendered.
	target edit.Target
	// movement describes the keys that the edit of the disks moves; nil if it moves none.
	movement *v1alpha1.KeyMovement
}

// isRendered returns true if the operator knows which configuration the pods are to run.
func (w wanted) isRendered() bool { return w.target.Revision.ID != "" }

// want computes what the spec asks for, and changes nothing. The error is a [status.Problem] if the spec is not
// accepted or waits for a person.
func (r *CacheNodeReconciler) want(
	ctx context.Context, s scope, o observed, out *outcome,
) (w wanted, err error) {
	errs := append(validation.Validate(s.cacheNode), r.Cluster.Policy.Violations(s.cacheNode)...)
	if len(errs) > 0 {
		return w, &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: errs.ToAggregate().Error(), Stalled: true}
	}
	if err := checkLeaving(s.cacheNode.Spec.Disks, o.offered); err != nil {
		return w, err
	}
	w.effective = effective.Of(o.leaving.cacheNode, manifest.Before(o.offered.template, o.own.statefulSet))
	if replicas := o.storage.actions.Follow.Replicas; replicas != nil { // one pod on each node: see scale
		w.effective.Spec.Replicas = replicas
	}
	if err := r.references.resolvePorts(ctx, w.effective.CacheNode); err != nil {
		return w, err
	}
	bundle, err := r.references.bundle(ctx, s.cacheNode)
	if err != nil {
		return w, err
	}
	if w.certificate, err = r.references.certificate(ctx, s.cacheNode); err != nil {
		return w, err
	}
	if w.target, err = r.render(w.effective, bundle, r.routes(s, o, out)); err != nil {
		return w, err
	}
	if w.movement, err = moves(s, o, w.target.Revision); err != nil {
		return w, err
	}
	return w, checkStorage(o)
}

// render returns the wanted state of the pods (edit.Target), and checks that their configuration can be rendered. A
// spec whose configuration cannot be rendered is not accepted, so no pod gets the configuration.
func (r *CacheNodeReconciler) render(
	cacheNode effective.CacheNode, bundle string, table routes.Table,
) (edit.Target, error) {
	target, err := edit.TargetOf(cacheNode, revision.Outside{
		CABundle: bundle, ClusterDomain: r.Cluster.Domain, Resolvers: r.Cluster.Resolvers, Routes: table,
	})
	if err != nil {
		return edit.Target{}, err
	}
	if err := r.tryOut(target.Revision, cacheNode.Spec); err != nil {
		return edit.Target{}, &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true}
	}
	return target, nil
}

// tryOut renders the configuration with assumed properties of a pod (nominal facts). If it has rendered the same
// configuration before, it does nothing, because most passes handle an unchanged CacheNode.
func (r *CacheNodeReconciler) tryOut(revision agentapi.Revision, spec v1alpha1.CacheNodeSpec) error {
	memory := spec.Pod.Resources.Limits.Memory().Value()
	key := revision.ID + " " + strconv.FormatInt(memory, 10)
	if _, ok := r.rendered.Get(key); ok {
		return nil
	}
	nominal := nginxcache.Facts{Memory: memory, Fleet: nginxcache.NominalFleet(spec)}
	if err := nginxcache.Check(nginxcache.Input{Revision: revision, Facts: nominal}); err != nil {
		return err
	}
	r.rendered.Add(key, nil)
	return nil
}

// moves describes which keys move because of an edit of the disks; nil if no keys move. It returns an error if the edit
// moves more keys than the spec allows and nobody has acknowledged this movement. Because of the error, the operator
// changes nothing.
func moves(s scope, o observed, wanted agentapi.Revision) (*v1alpha1.KeyMovement, error) {
	if o.offered.stable == nil {
		return nil, nil
	}
	m := edit.Movement(*o.offered.stable, wanted)
	movement := status.Movement(m, o.agents.cached)
	if movement == nil {
		return nil, nil
	}
	// The status keeps the number of bytes that was measured at the beginning of the movement, because disks fill and
	// empty while the keys move.
	if said := s.cacheNode.Status.KeyMovement; said != nil && said.Name == movement.Name {
		movement.Bytes = said.Bytes
	}
	limit := s.cacheNode.Spec.Rollout.MaxKeyMovement
	if limit == nil || m.Slots <= int(*limit)*100 || s.cacheNode.Annotations[v1alpha1.AnnotationAcknowledged] == m.Name {
		return movement, nil
	}
	return movement, &status.Problem{
		Reason: v1alpha1.ReasonKeyMovement, Accepted: true,
		Message: fmt.Sprintf("%s, more than rollout.maxKeyMovement, %d%%; nothing is changed until it is acknowledged: "+
			"kubectl annotate --overwrite cachenode %s %s=%s",
			status.DescribeMovement(movement), *limit, s.cacheNode.Name, v1alpha1.AnnotationAcknowledged, m.Name),
	}
}
