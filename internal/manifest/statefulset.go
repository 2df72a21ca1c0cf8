package manifest

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// StatefulSet returns the StatefulSet with the present template. While that template cannot be used, the StatefulSet
// has an earlier one; see [Template.Makeable].
func StatefulSet(in Input) *appsv1.StatefulSet {
	template := in.Template.Makeable(in.Volumes, int(in.replicas()))
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: objectMeta(in, in.CacheNode.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    new(in.replicas()),
			ServiceName: naming.Headless(in.CacheNode.Name),
			// Cache pods need not wait for each other when they start.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			// The operator itself replaces pods, one after another, in the order that a change of the disks requires.
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			// The operator itself deletes claims, because a recreated StatefulSet would not know the claims of pods that were
			// scaled away.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Selector:             &metav1.LabelSelector{MatchLabels: naming.PodSelector(in.CacheNode.Name)},
			Template:             template.Template,
			VolumeClaimTemplates: template.Claims,
		},
	}
}
