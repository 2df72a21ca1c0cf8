package controllers

import (
	"context"
	"strconv"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// validate checks what the API server cannot check, and makes the choices that the spec leaves to the operator.
func (r *CacheNodeReconciler) validate(_ context.Context, p *pass) error {
	errs := append(validation.Validate(p.cacheNode), r.Cluster.Policy.Violations(p.cacheNode)...)
	if len(errs) > 0 {
		return &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: errs.ToAggregate().Error(), Stalled: true}
	}
	if problem := p.checkLeaving(); problem != nil {
		return problem
	}
	p.effective = effective.Of(p.withLeaving(), manifest.Before(p.offered.template, p.statefulSet))
	return nil
}

// render computes the target of the spec and tries out its configuration. A configuration that cannot be rendered is
// refused here, before a pod sees it.
func (r *CacheNodeReconciler) render(_ context.Context, p *pass) error {
	target, err := edit.TargetOf(p.effective, revision.Outside{
		CABundle: p.caBundle, ClusterDomain: r.Cluster.Domain, Resolvers: r.Cluster.Resolvers,
	})
	if err != nil {
		return err
	}
	if err := r.tryOut(target.Revision, p.effective.Spec); err != nil {
		return &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true}
	}
	plan := edit.Plan(target.Revision)
	p.target, p.plan = target, &plan
	return nil
}

// tryOut renders the configuration with nominal facts, unless that was done before: most passes are over an unchanged
// CacheNode.
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
