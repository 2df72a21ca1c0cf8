// Package effective has the spec that the operator acts on: what a user wrote, with what the operator chose where the spec
// leaves the choice to it. It is pure.
package effective

import (
	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// CacheNode is a CacheNode with its effective spec. It is a copy: the object that it was made from stays as it was read.
// [Of] makes it.
type CacheNode struct {
	*v1alpha1.CacheNode
	// Tuning says what the operator chose, and why: status.tuning.
	Tuning []string
}

// Of chooses what the spec leaves open. before is what the CacheNode has had of a memory tier so far.
func Of(cacheNode *v1alpha1.CacheNode, before tuning.Before) CacheNode {
	e := CacheNode{CacheNode: cacheNode.DeepCopy()}
	e.Spec, e.Tuning = tuning.Resolve(e.Spec, before)
	return e
}

// Before is what an edit of this CacheNode finds of a memory tier.
func (c CacheNode) Before() tuning.Before {
	if tuning.HasMemoryTier(c.Spec) {
		return tuning.WithTier
	}
	return tuning.WithoutTier
}
