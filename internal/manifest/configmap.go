package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// configMap holds one revision of the configuration and never changes: a pod that starts again finds the revision that
// it was made with, also in the middle of a rollout.
func configMap(in Input) *corev1.ConfigMap {
	data := map[string]string{naming.ConfigKey: in.Config.Text}
	if in.CABundle != "" {
		data[naming.CAKey] = in.CABundle
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(in, naming.ConfigMap(in.Node.Name, in.Config.Revision)),
		Data:       data,
		Immutable:  new(true),
	}
}
