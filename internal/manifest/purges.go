package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Purges returns the ConfigMap with a segment of the journal of purges. When a pod starts, it reads the purges that it
// has missed from this ConfigMap.
func Purges(cacheNode *v1alpha1.CacheNode, slot int, segment []byte) *corev1.ConfigMap {
	name := naming.Purges(cacheNode.Name, slot)
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(Input{CacheNode: effective.CacheNode{CacheNode: cacheNode}}, name),
		BinaryData: map[string][]byte{naming.PurgesKey: segment},
	}
}

// purgesVolume returns the volume with the segments of the journal. Segments that do not exist yet are left out.
func purgesVolume(cacheNode string) corev1.Volume {
	var sources []corev1.VolumeProjection
	for slot := range naming.PurgesSlots {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: naming.Purges(cacheNode, slot)}, Optional: new(true),
			Items: []corev1.KeyToPath{{Key: naming.PurgesKey, Path: naming.PurgesFile(slot)}},
		}})
	}
	return corev1.Volume{Name: "cachenode-purges", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources},
	}}
}
