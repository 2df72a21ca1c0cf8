// Package v1alpha1 is the API cachenode.io/v1alpha1. Its comments are the specification: each names the field, its
// meaning, unit, default and limits, and the nginx directive that it becomes.
//
// +kubebuilder:object:generate=true
// +groupName=cachenode.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "cachenode.io", Version: "v1alpha1"}

	builder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme makes the types known to a scheme.
	AddToScheme = builder.AddToScheme
)

func init() { builder.Register(&CacheNode{}, &CacheNodeList{}) }
