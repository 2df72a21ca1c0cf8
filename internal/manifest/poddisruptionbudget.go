package manifest

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func podDisruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	meta := objectMeta(in, in.CacheNode.Name)
	unavailable := in.CacheNode.Spec.Disruption.MaxUnavailable
	if in.Guard.Closed() {
		unavailable = new(intstr.FromInt32(0))
		meta.Annotations = map[string]string{naming.AnnotationEvictions: naming.EvictionsNeedCordon}
		if in.Guard == fleet.HandingOver {
			meta.Annotations[naming.AnnotationEvictions] = naming.EvictionsNeedHandover
		}
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
