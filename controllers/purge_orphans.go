package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// orphans reports that the CacheNode of purges does not exist. They are carried out if it is created soon, as git can
// bring about. Later they have failed, and after a day they are deleted: nobody else would do that.
func (r *PurgeReconciler) orphans(
	ctx context.Context, p *purging, cacheNode types.NamespacedName,
) (reconcile.Result, error) {
	if len(p.purges) == 0 {
		r.missing.Delete(cacheNode)
		return reconcile.Result{}, nil
	}
	seen, _ := r.missing.LoadOrStore(cacheNode, p.now)
	since := seen.(time.Time) //nolint:forcetypeassert // nothing else is there
	var errs []error
	next := compactInterval
	for i := range p.purges {
		cp := &p.purges[i]
		if isFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		status, left := orphan(cp, since, p.now)
		errs = append(errs, r.write(ctx, cp, status, p.now))
		if left > 0 {
			next = min(next, left)
		}
	}
	expires, err := r.expire(ctx, p, missingTTL)
	return reconcile.Result{RequeueAfter: min(next, expires)}, errors.Join(append(errs, err)...)
}

// orphan returns the status of a purge whose CacheNode is known to be missing since a time, and how long the purge
// still waits. What was applied is settled in the end: no pod serves anything.
func orphan(cp *v1alpha1.CachePurge, since, now time.Time) (s v1alpha1.CachePurgeStatus, left time.Duration) {
	if cp.CreationTimestamp.After(since) {
		since = cp.CreationTimestamp.Time
	}
	s, left = *cp.Status.DeepCopy(), since.Add(missingPatience).Sub(now)
	switch applied := s.Phase == v1alpha1.PurgeApplied; {
	case applied && left <= 0:
		s.Phase = v1alpha1.PurgeSettled
	case left <= 0:
		s.Phase, s.Message = v1alpha1.PurgeFailed, fmt.Sprintf("there was no CacheNode %s in namespace %s for an hour: "+
			"create the CacheNode, and then another CachePurge", cp.Spec.CacheNode, cp.Namespace)
	case !applied:
		s.Phase = v1alpha1.PurgePending
		s.Message = fmt.Sprintf("there is no CacheNode %s in namespace %s", cp.Spec.CacheNode, cp.Namespace)
	}
	return s, left
}
