package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// AgentSecret holds the certificates with which agents and operator know each other. The pods mount the server's part.
func AgentSecret(node *v1alpha1.CacheNode, certificates map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(Input{Node: node}, naming.AgentSecret(node.Name)),
		Type:       corev1.SecretTypeOpaque,
		Data:       certificates,
	}
}
