package purge

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// IsFinished returns true for a purge that has settled or failed.
func IsFinished(cp *v1alpha1.CachePurge) bool {
	return cp.Status.Phase == v1alpha1.PurgeSettled || cp.Status.Phase == v1alpha1.PurgeFailed
}

// Change is a status that must be written.
type Change struct {
	Purge *v1alpha1.CachePurge
	Next  v1alpha1.CachePurgeStatus
}

// Statuses returns the statuses that have changed.
func (s State) Statuses() (changes []Change) {
	var rules map[string]Rule
	if s.Log != nil {
		rules = s.rules()
	}
	pods := s.serving()
	for i := range s.Purges {
		cp := &s.Purges[i]
		if IsFinished(cp) {
			continue
		}
		next := s.next(cp, rules, pods)
		if stamp(&next, cp, s.Now); differs(cp.Status, next) {
			changes = append(changes, Change{cp, next})
		}
	}
	return changes
}

// differs returns true if the next status must be written.
func differs(before, next v1alpha1.CachePurgeStatus) bool {
	return !equality.Semantic.DeepEqual(before, next)
}

// next returns the next status of a purge that is not finished, without times and conditions.
func (s State) next(cp *v1alpha1.CachePurge, rules map[string]Rule, pods []Pod) v1alpha1.CachePurgeStatus {
	held := s.Held[cp.UID]
	if s.Log == nil { // the phase does not change
		next := *cp.Status.DeepCopy()
		next.Phase, next.Message = cmp.Or(next.Phase, v1alpha1.PurgePending), held.Message
		if s.Lost[cp.UID] {
			next.Number = 0
		}
		return next
	}
	rule, isThere := rules[string(cp.UID)]
	switch {
	case held.IsFinal:
		return v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Message: held.Message}
	case isThere:
		next := Progress(rule, pods, cp.Status)
		if next.Phase == v1alpha1.PurgePending && cp.Status.Phase == v1alpha1.PurgeApplied &&
			slices.ContainsFunc(pods, func(p Pod) bool { return p.IsUnknown }) {
			return *cp.Status.DeepCopy() // this operator has just started
		}
		return next
	case held.Message != "":
		return v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgePending, Message: held.Message}
	case s.place(cp) != 0: // the rule had ended when the journal removed it
		ended := Rule{Number: cp.Status.Number, Changed: s.Log.Floor, Until: s.Now}
		return Progress(ended, pods, cp.Status)
	}
	return v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgePending}
}

// stamp completes the next status of a purge. It sets the conditions, the times at which the purge reached its phases,
// and the counts. The counts never decrease.
func stamp(next *v1alpha1.CachePurgeStatus, cp *v1alpha1.CachePurge, now time.Time) {
	before := cp.Status
	next.ObservedGeneration = cp.Generation
	next.AppliedAt, next.SettledAt = before.AppliedAt, before.SettledAt
	// An agent forgets its counts when it is restarted, so the larger values are kept.
	next.Files, next.Bytes = max(next.Files, before.Files), max(next.Bytes, before.Bytes)
	at := metav1.NewMicroTime(now)
	if next.AppliedAt == nil && (next.Phase == v1alpha1.PurgeApplied || next.Phase == v1alpha1.PurgeSettled) {
		next.AppliedAt = &at
	}
	if next.SettledAt == nil && next.Phase == v1alpha1.PurgeSettled {
		next.SettledAt = &at
	}
	next.Conditions = conditions(*next, before.Conditions, cp.Generation)
}

// conditions returns the conditions that follow from the phase. Reconciling and Stalled are conditions of kstatus.
func conditions(
	s v1alpha1.CachePurgeStatus, before []metav1.Condition, generation int64,
) (list []metav1.Condition) {
	list = slices.Clone(before) // meta.SetStatusCondition changes the list in place
	for _, c := range []struct {
		kind string
		is   bool
	}{
		{v1alpha1.ConditionApplied, s.AppliedAt != nil && s.Phase != v1alpha1.PurgePending},
		{v1alpha1.ConditionSettled, s.Phase == v1alpha1.PurgeSettled},
		{v1alpha1.ConditionReconciling, s.Phase == v1alpha1.PurgePending || s.Phase == v1alpha1.PurgeApplied},
		{v1alpha1.ConditionStalled, s.Phase == v1alpha1.PurgeFailed},
	} {
		condition := metav1.Condition{
			Type: c.kind, Status: metav1.ConditionFalse, Reason: string(s.Phase), Message: s.Message,
			ObservedGeneration: generation,
		}
		if c.is {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&list, condition)
	}
	return list
}
