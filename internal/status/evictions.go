package status

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// evictions sets EvictionsWait. The message names the disruption budget, because the error of a refused eviction names
// only the budget. The message also contains the time until which evictions are refused. This time is known only after
// the hand-over has begun, and not while the operator still announces the hand-over to the pods. If the pass failed
// before it decided which pods own keys, the condition stays as it was. While the spec is not accepted, the operator
// does not decide which pods own keys, and the budget allows evictions.
func (l *conditionList) evictions() {
	set := func(is bool, reason, format string, values ...any) {
		message := "PodDisruptionBudget " + l.CacheNode.Name + " " + fmt.Sprintf(format, values...)
		l.set(v1alpha1.ConditionEvictionsWait, is, reason, message)
	}
	if l.Rollout == nil && l.Problem == nil {
		return
	}
	guard, until := fleet.Unguarded, time.Time{}
	if l.Sharing != nil {
		guard, until = l.Sharing.Guard, l.Sharing.State.Until
	}
	switch {
	case guard == fleet.HandingOver && !until.IsZero() && !l.Sharing.Announced:
		set(true, v1alpha1.ReasonHandingOver, "refuses evictions until %s, while pods hand their keys over; "+
			"kubectl drain tries again until then", until.UTC().Format(time.RFC3339))
	case guard.Closed():
		set(false, v1alpha1.ReasonCordonFirst, "allows an eviction %s after the cordon of its node, "+
			"when the pod has handed its keys over", effective.HandoverText(l.CacheNode.Spec.Routing))
	case guard == fleet.HandedOver:
		set(false, v1alpha1.ReasonHandedOver, "allows evictions within spec.disruption.maxUnavailable: "+
			"the pods of cordoned nodes have handed their keys over")
	default:
		set(false, v1alpha1.ReasonBudgetOpen, "allows evictions within spec.disruption.maxUnavailable")
	}
}
