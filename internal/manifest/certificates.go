package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// CertificatesSecret returns a Secret with certificates of the CacheNode's Gateways. certificates contains each
// certificate with its key, by ID.
//
// A pod cannot mount Secrets of other namespaces, and a new mount would replace the pod. So the operator copies the
// certificates into a fixed number of Secrets in the namespace of the CacheNode.
func CertificatesSecret(cacheNode *v1alpha1.CacheNode, slot int, certificates map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(
			Input{CacheNode: effective.CacheNode{CacheNode: cacheNode}}, naming.Certificates(cacheNode.Name, slot)),
		Type: corev1.SecretTypeOpaque,
		Data: certificates,
	}
}

// certificatesVolume returns the volume with the certificates of Gateways. Secrets that do not exist yet are left out.
func certificatesVolume(cacheNode string) corev1.Volume {
	var sources []corev1.VolumeProjection
	for slot := range naming.CertificatesSlots {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: naming.Certificates(cacheNode, slot)}, Optional: new(true),
		}})
	}
	return corev1.Volume{Name: "cachenode-certificates", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(0o440))},
	}}
}
