package manifest

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// PodDisruptionBudget returns the budget of the pods. It allows no eviction while the guard is closed.
func PodDisruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	meta := objectMeta(in, in.CacheNode.Name)
	unavailable := in.CacheNode.Spec.Disruption.MaxUnavailable
	if in.Guard.Closed() {
		unavailable = new(intstr.FromInt32(0))
		meta.Annotations = map[string]string{naming.AnnotationEvictions: reasons[in.Guard]}
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: unavailable,
			Selector:       &metav1.LabelSelector{MatchLabels: naming.PodSelector(in.CacheNode.Name)},
			// A pod that does not serve may always be evicted: a new pod may be the repair.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// reasons are why a budget is closed, by the guard.
var reasons = map[fleet.Guard]string{
	fleet.NeedsCordon: naming.EvictionsNeedCordon, fleet.HandingOver: naming.EvictionsNeedHandover,
}

// GuardOf returns the guard with which a budget was made. It is Unguarded for all that leave the budget open.
func GuardOf(budget *policyv1.PodDisruptionBudget) fleet.Guard {
	for guard, reason := range reasons {
		if budget.Annotations[naming.AnnotationEvictions] == reason {
			return guard
		}
	}
	return fleet.Unguarded
}
