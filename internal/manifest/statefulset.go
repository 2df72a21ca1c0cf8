package manifest

import (
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func statefulSet(in Input) *appsv1.StatefulSet {
	spec := in.Node.Spec
	meta := objectMeta(in, in.Node.Name)
	text, err := json.Marshal(in.Template)
	if err != nil {
		panic(err) // Kubernetes' own types
	}
	meta.Annotations = map[string]string{naming.AnnotationTemplate: string(text)}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas:    spec.Replicas,
			ServiceName: naming.Headless(in.Node.Name),
			// Caches do not wait for each other to start; updates still go one by one.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(in.Hold))}, //nolint:gosec // at most 1000
			},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted),
				WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(spec.PersistentVolumeClaimRetentionPolicy.WhenScaled),
			},
			Selector:             &metav1.LabelSelector{MatchLabels: naming.PodSelector(in.Node.Name)},
			Template:             in.Template.Template,
			VolumeClaimTemplates: claimTemplates(in),
		},
	}
}

// claimTemplates are in the order of the names, so that the order of the disks in the spec does not matter.
func claimTemplates(in Input) []corev1.PersistentVolumeClaim {
	var claims []corev1.PersistentVolumeClaim
	for _, d := range disksByName(in.Node.Spec.Disks) {
		claims = append(claims, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: naming.Labels(in.Node.Name)},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: d.StorageClassName,
				VolumeMode:       ptr.To(corev1.PersistentVolumeFilesystem),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: d.Size},
				},
			},
		})
	}
	return claims
}

func disksByName(disks []v1alpha1.Disk) []v1alpha1.Disk {
	return slices.SortedFunc(slices.Values(disks), func(a, b v1alpha1.Disk) int { return strings.Compare(a.Name, b.Name) })
}
