package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Purges is the ConfigMap with the journal of purges. Pods that start read from it what they have missed.
func Purges(cacheNode *v1alpha1.CacheNode, journal []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(Input{CacheNode: effective.CacheNode{CacheNode: cacheNode}}, naming.Purges(cacheNode.Name)),
		BinaryData: map[string][]byte{naming.PurgesKey: journal},
	}
}
