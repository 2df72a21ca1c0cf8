// Package v1alpha1 is the API cachenode.io/v1alpha1. Its comments are the specification: each names the field, its
// meaning, unit, default and limits, and the nginx directive that it becomes.
//
// +kubebuilder:object:generate=true
// +groupName=cachenode.io
//
// It imports Kubernetes' types only. A new field goes beside its kind in a *_types.go file, with the comment that users
// read and its CEL rules. A new condition or reason goes into conditions.go, an annotation for users into
// annotations.go.
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
	scheme.AddKnownTypes(GroupVersion, &CacheNode{}, &CacheNodeList{}, &CachePurge{}, &CachePurgeList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
