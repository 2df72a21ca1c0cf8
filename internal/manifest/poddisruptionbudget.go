package manifest

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// PodDisruptionBudget returns the disruption budget of the pods. While in.Guard is closed, which means that no pod
// may be evicted now, the budget allows no eviction.
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
			// A pod that is not ready may always be evicted, because a new pod may solve its problem.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// reasons maps each guard that closes the budget to the reason in the annotation.
var reasons = map[fleet.Guard]string{
	fleet.NeedsCordon: naming.EvictionsNeedCordon, fleet.HandingOver: naming.EvictionsNeedHandover,
}

// GuardOf returns the guard because of which a budget allows no eviction. It returns Unguarded for a budget that
// allows evictions.
func GuardOf(budget *policyv1.PodDisruptionBudget) fleet.Guard {
	for guard, reason := range reasons {
		if budget.Annotations[naming.AnnotationEvictions] == reason {
			return guard
		}
	}
	return fleet.Unguarded
}
