package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// claimTemplates returns the claim templates, sorted by the names of the disks, so that the order in the spec does
// not matter. If the operator makes the volumes of a disk, the claim selects only these volumes.
func claimTemplates(in PodInput) []corev1.PersistentVolumeClaim {
	var claims []corev1.PersistentVolumeClaim
	for _, d := range in.Disks {
		labels := naming.Labels(in.Name)
		labels[naming.LabelDisk] = d.Name
		claim := corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: labels},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: d.Class,
				VolumeMode:       new(corev1.PersistentVolumeFilesystem),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(d.Size, resource.BinarySI)},
				},
			},
		}
		if d.LocalPath != "" {
			claim.Spec.StorageClassName = new(naming.LocalClass)
			claim.Spec.Selector = &metav1.LabelSelector{
				MatchLabels: naming.VolumeLabels(in.Namespace, in.Name, d.Name, naming.RoleDisk),
			}
		}
		claims = append(claims, claim)
	}
	return claims
}
