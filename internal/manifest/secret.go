package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// agentSecret holds the certificates with which agents and operator know each other. The pods mount the server's part.
func agentSecret(in Input) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(in, naming.AgentSecret(in.Node.Name)),
		Type:       corev1.SecretTypeOpaque,
		Data:       in.Certificates,
	}
}
