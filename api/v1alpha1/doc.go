// Package v1alpha1 is the API cachenode.io/v1alpha1. The comments in this package are the specification. The comment on
// a field contains the field's name, meaning, unit, default and limits, and the nginx directive that the field becomes.
//
// +kubebuilder:object:generate=true
// +groupName=cachenode.io
//
// The package imports only the types of Kubernetes and of the Gateway API. Add a new field to the *_types.go file of
// its subject, with the comment that users read and with its CEL rules. Add a new condition or reason to conditions.go,
// and a new annotation for users to annotations.go.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "cachenode.io", Version: "v1alpha1"}

// AddToScheme registers the types with a scheme. It always returns nil; callers expect a function that returns an
// error.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CacheNode{}, &CacheNodeList{}, &CachePurge{}, &CachePurgeList{},
		&CachePolicy{}, &CachePolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
