package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// AgentSecret returns the Secret with the certificates by which the agents and the operator recognize each other. The
// Secret also contains the key that signs the marks on disks. The pods mount the server's certificate and key. If the
// claims stay when the CacheNode is deleted, the Secret stays too. Without the Secret's key, a new CacheNode of the
// same name would not recognize the caches that the deleted one left on the disks.
func AgentSecret(cacheNode *v1alpha1.CacheNode, certificates map[string][]byte) *corev1.Secret {
	meta := objectMeta(Input{CacheNode: effective.CacheNode{CacheNode: cacheNode}}, naming.AgentSecret(cacheNode.Name))
	if cacheNode.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == v1alpha1.RetainClaims {
		meta.OwnerReferences = nil
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Data:       certificates,
	}
}
