// Package manifest turns a CacheNode into the objects that the operator applies. It is pure. It sets only the fields
// that the operator owns.
//
// It may import the packages that define the meaning of a spec. Each kind of object has its own file. Build must also
// return the objects of a new kind.
package manifest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Input is everything from which the objects are made.
type Input struct {
	// CacheNode must be valid.
	CacheNode effective.CacheNode
	// Config contains what the operator offers to the pods' agents.
	Config ConfigMap
	// Certificates are the data of the agents' Secret, by key.
	Certificates map[string][]byte
	// Template is the pod template; see NewTemplate.
	Template Template
	// Volumes are the volumes of each pod, by ordinal.
	Volumes map[int][]string
	// Keep is the number of pods that must stay, even if the CacheNode wants fewer. When a CacheNode is scaled down, the
	// pods that are no longer wanted first hand their keys over.
	Keep int32
	// Guard decides whether pods may be evicted; see package fleet.
	Guard fleet.Guard
}

// replicas returns the number of pods that the StatefulSet must have.
func (in Input) replicas() int32 { return max(ptr.Deref(in.CacheNode.Spec.Replicas, 1), in.Keep) }

// Build returns all objects in the order in which they are applied. The first one can be refused; see [CanBeRefused].
// Each object comes before the objects that refer to it.
func Build(in Input) []client.Object {
	return []client.Object{
		clientService(in),
		AgentSecret(in.CacheNode.CacheNode, in.Certificates),
		configMap(in),
		headlessService(in),
		PodDisruptionBudget(in),
		StatefulSet(in),
	}
}

// CanBeRefused returns true for an object with fields from the spec that only the API server can check, such as
// affinity or annotations.
func CanBeRefused(object client.Object) bool {
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		return true
	case *corev1.Service:
		return o.Spec.ClusterIP != corev1.ClusterIPNone
	}
	return false
}

func objectMeta(in Input, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(in.CacheNode, v1alpha1.GroupVersion.WithKind("CacheNode"))
	return metav1.ObjectMeta{
		Name:            name,
		Namespace:       in.CacheNode.Namespace,
		Labels:          naming.Labels(in.CacheNode.Name),
		OwnerReferences: []metav1.OwnerReference{*owner},
	}
}
