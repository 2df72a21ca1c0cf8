package controllers

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// stripPurge keeps of a CachePurge what the operator reads of all of them: without what is purged, which a pass reads
// from the API server for those that get a place, and without whatever tenants write into metadata.
func stripPurge(cp *v1alpha1.CachePurge) {
	cp.Annotations, cp.Labels, cp.OwnerReferences, cp.Finalizers = nil, nil, nil, nil
	cp.Spec = v1alpha1.CachePurgeSpec{
		CacheNode: cp.Spec.CacheNode, TTLSecondsAfterFinished: cp.Spec.TTLSecondsAfterFinished,
	}
	if purge.IsFinished(cp) {
		cp.Status.Pods, cp.Status.Message, cp.Status.Conditions = nil, "", nil
	}
}

// orphans reports that the CacheNode of purges does not exist.
func (r *PurgeReconciler) orphans(
	ctx context.Context, p *purging, cacheNode types.NamespacedName,
) (reconcile.Result, error) {
	if len(p.state.Purges) == 0 {
		r.missing.Delete(cacheNode)
		return reconcile.Result{}, nil
	}
	since, _ := r.missing.LoadOrStore(cacheNode, p.state.Now)
	changes, due := p.state.Orphans(since.(time.Time)) //nolint:forcetypeassert // nothing else is there
	return r.report(ctx, p, changes, purge.MissingTTL, due)
}

// reportAtOnce is how many statuses are written at a time. One after another, they would hold up new purges.
const reportAtOnce = 8

// report writes statuses, and deletes finished purges whose time has come. The next pass is due after a time, or
// earlier if a purge is to be deleted then.
func (r *PurgeReconciler) report(
	ctx context.Context, p *purging, changes []purge.Change, ttl, due time.Duration,
) (reconcile.Result, error) {
	errs := []error{r.writeAll(ctx, changes)}
	expired, next := p.state.Expired(ttl)
	for _, cp := range expired {
		errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, cp, client.Preconditions{UID: &cp.UID})))
	}
	return reconcile.Result{RequeueAfter: min(due, next)}, errors.Join(errs...)
}

// writeAll writes statuses.
func (r *PurgeReconciler) writeAll(ctx context.Context, changes []purge.Change) error {
	var writing errgroup.Group
	writing.SetLimit(reportAtOnce)
	for _, change := range changes {
		writing.Go(func() error { return r.write(ctx, change) })
	}
	return writing.Wait()
}

// write writes a status.
func (r *PurgeReconciler) write(ctx context.Context, change purge.Change) error {
	cp := change.Purge
	written := cp.DeepCopy() // which gets the API server's answer, with all that is purged
	written.Status = change.Next
	err := r.Status().Patch(ctx, written, client.MergeFrom(cp), client.FieldOwner(naming.FieldManager))
	if err == nil || apierrors.IsNotFound(err) { // deleted meanwhile: the journal has it
		cp.Status = change.Next
		return nil
	}
	return err
}
