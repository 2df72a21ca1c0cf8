// Package crd embeds the CustomResourceDefinitions that controller-gen writes. It imports nothing. After "make
// generate", add the definition of another kind here.
package crd

import _ "embed"

// CacheNodes is the definition of the kind CacheNode, as YAML.
//
//go:embed bases/cachenode.io_cachenodes.yaml
var CacheNodes []byte

// CachePurges is the definition of the kind CachePurge, as YAML.
//
//go:embed bases/cachenode.io_cachepurges.yaml
var CachePurges []byte

// CachePolicies is the definition of the kind CachePolicy, as YAML.
//
//go:embed bases/cachenode.io_cachepolicies.yaml
var CachePolicies []byte
