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

// stripPurge keeps only the parts that the operator needs for every CachePurge. It drops the lists of URLs, prefixes,
// hosts and tags. A pass reads these lists from the API server when the purge gets a place. It also drops the metadata
// that tenants can write.
func stripPurge(cp *v1alpha1.CachePurge) {
	cp.Annotations, cp.Labels, cp.OwnerReferences, cp.Finalizers = nil, nil, nil, nil
	cp.Spec = v1alpha1.CachePurgeSpec{
		CacheNode: cp.Spec.CacheNode, TTLSecondsAfterFinished: cp.Spec.TTLSecondsAfterFinished,
	}
	if purge.IsFinished(cp) {
		cp.Status.Pods, cp.Status.Message, cp.Status.Conditions = nil, "", nil
	}
}

// orphans handles purges whose CacheNode does not exist, and writes this into their statuses.
func (r *PurgeReconciler) orphans(
	ctx context.Context, p *purging, cacheNode types.NamespacedName,
) (reconcile.Result, error) {
	if len(p.state.Purges) == 0 {
		r.missing.Delete(cacheNode)
		return reconcile.Result{}, nil
	}
	since, _ := r.missing.LoadOrStore(cacheNode, p.state.Now)
	changes, due := p.state.Orphans(since.(time.Time)) //nolint:forcetypeassert // the map stores only times
	return r.report(ctx, p, changes, purge.MissingTTL, due)
}

// reportAtOnce is the number of statuses that are written at the same time. If the statuses were written one after
// another, new purges would have to wait longer.
const reportAtOnce = 8

// report writes statuses and deletes finished purges whose time to live has ended. due is the time until the next
// pass. If a purge must be deleted earlier, the next pass is at that time.
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

// writeAll writes several statuses.
func (r *PurgeReconciler) writeAll(ctx context.Context, changes []purge.Change) error {
	var writing errgroup.Group
	writing.SetLimit(reportAtOnce)
	for _, change := range changes {
		writing.Go(func() error { return r.write(ctx, change) })
	}
	return writing.Wait()
}

// write writes one status.
func (r *PurgeReconciler) write(ctx context.Context, change purge.Change) error {
	cp := change.Purge
	written := cp.DeepCopy() // Patch fills it with the API server's answer, which includes the long spec
	written.Status = change.Next
	err := r.Status().Patch(ctx, written, client.MergeFrom(cp), client.FieldOwner(naming.FieldManager))
	if err == nil || apierrors.IsNotFound(err) { // a purge that was deleted meanwhile is still in the journal
		cp.Status = change.Next
		return nil
	}
	return err
}
