package controllers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// isFinished returns true for a purge that needs nothing more.
func isFinished(cp *v1alpha1.CachePurge) bool {
	return cp.Status.Phase == v1alpha1.PurgeSettled || cp.Status.Phase == v1alpha1.PurgeFailed
}

// reportAtOnce is how many statuses are written at a time. One after another, they would hold up new purges.
const reportAtOnce = 8

// report writes the status of each purge that has changed.
func (r *PurgeReconciler) report(ctx context.Context, p *purging, j *journal, pods []purge.Pod) error {
	rules := map[string]purge.Rule{}
	for _, rule := range j.log.Rules {
		rules[rule.UID] = rule
	}
	var writing errgroup.Group
	writing.SetLimit(reportAtOnce)
	for i := range p.purges {
		cp := &p.purges[i]
		if isFinished(cp) {
			continue
		}
		var next v1alpha1.CachePurgeStatus
		rule, isThere := rules[string(cp.UID)]
		switch {
		case p.refused[cp.UID] != "":
			next = v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Message: p.refused[cp.UID]}
		case isThere:
			next = purge.Progress(rule, pods, cp.Status)
			if next.Phase == v1alpha1.PurgePending && cp.Status.Phase == v1alpha1.PurgeApplied &&
				slices.ContainsFunc(pods, func(p purge.Pod) bool { return p.IsUnknown }) {
				continue // this operator has just begun
			}
		case cp.Status.Number != 0: // it had ended when the journal forgot it
			ended := purge.Rule{Number: cp.Status.Number, Changed: j.log.Floor, Until: p.now}
			next = purge.Progress(ended, pods, cp.Status)
		default:
			next = v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgePending, Message: p.waiting[cp.UID]}
		}
		writing.Go(func() error { return r.write(ctx, cp, next, p.now) })
	}
	return writing.Wait()
}

// reportWaiting says what each purge that has not ended waits for while the journal is not known. Its phase stays.
func (r *PurgeReconciler) reportWaiting(ctx context.Context, p *purging) error {
	for i := range p.purges {
		cp := &p.purges[i]
		if isFinished(cp) {
			continue
		}
		next := *cp.Status.DeepCopy()
		next.Phase, next.Message = cmp.Or(next.Phase, v1alpha1.PurgePending), p.waiting[cp.UID]
		if err := r.write(ctx, cp, next, p.now); err != nil {
			return err
		}
	}
	return nil
}

// write writes a status if it has changed.
func (r *PurgeReconciler) write(
	ctx context.Context, cp *v1alpha1.CachePurge, next v1alpha1.CachePurgeStatus, now time.Time,
) error {
	next.ObservedGeneration = cp.Generation
	next.Conditions, next.AppliedAt, next.SettledAt = cp.Status.Conditions, cp.Status.AppliedAt, cp.Status.SettledAt
	// An agent that was restarted has forgotten its counts.
	next.Files, next.Bytes = max(next.Files, cp.Status.Files), max(next.Bytes, cp.Status.Bytes)
	at := metav1.NewMicroTime(now)
	if next.AppliedAt == nil && (next.Phase == v1alpha1.PurgeApplied || next.Phase == v1alpha1.PurgeSettled) {
		next.AppliedAt = &at
	}
	if next.SettledAt == nil && next.Phase == v1alpha1.PurgeSettled {
		next.SettledAt = &at
	}
	setConditions(&next, cp.Generation)
	if equality.Semantic.DeepEqual(cp.Status, next) {
		return nil
	}
	written := cp.DeepCopy() // which gets the API server's answer, with all that is purged
	written.Status = next
	err := r.Status().Patch(ctx, written, client.MergeFrom(cp), client.FieldOwner(naming.FieldManager))
	cp.Status = next
	if apierrors.IsNotFound(err) { // deleted meanwhile: the journal has it
		return nil
	}
	return err
}

// setConditions sets the conditions that follow from the phase. Reconciling and Stalled are those of kstatus.
func setConditions(s *v1alpha1.CachePurgeStatus, generation int64) {
	is := func(kind string, is bool) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: string(s.Phase), Message: s.Message,
			ObservedGeneration: generation,
		}
		if is {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	// meta.SetStatusCondition changes the list in place.
	s.Conditions = append([]metav1.Condition{}, s.Conditions...)
	is(v1alpha1.ConditionApplied, s.AppliedAt != nil && s.Phase != v1alpha1.PurgePending)
	is(v1alpha1.ConditionSettled, s.Phase == v1alpha1.PurgeSettled)
	is(v1alpha1.ConditionReconciling, s.Phase == v1alpha1.PurgePending || s.Phase == v1alpha1.PurgeApplied)
	is(v1alpha1.ConditionStalled, s.Phase == v1alpha1.PurgeFailed)
}

// expire deletes finished purges whose time has come, and returns the time until the next one's. Purges that do not say
// how long they stay have a default; 0 means that they stay.
func (r *PurgeReconciler) expire(ctx context.Context, p *purging, ttl time.Duration) (time.Duration, error) {
	next := compactInterval
	for i := range p.purges {
		cp := &p.purges[i]
		ttl := ttl
		if seconds := cp.Spec.TTLSecondsAfterFinished; seconds != nil {
			ttl = time.Duration(*seconds) * time.Second
		} else if ttl == 0 {
			continue
		}
		if !isFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		finished := cp.CreationTimestamp.Time
		if cp.Status.SettledAt != nil {
			finished = cp.Status.SettledAt.Time
		}
		left := finished.Add(ttl).Sub(p.now)
		if left > 0 {
			next = min(next, left)
			continue
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, cp, client.Preconditions{UID: &cp.UID})); err != nil {
			return 0, err
		}
	}
	return next, nil
}
