// Package effective has the spec that the operator acts on: the user's spec, with what the operator chose where the
// spec leaves the choice open, and the defaults that depend on other fields. These are in code and not in the CRD, so
// that they can improve. It is pure. Its functions take a spec with the CRD's own defaults applied.
//
// It may import the API's types, shard and fleet. A default that depends on other fields goes here, with a
// sentence for status.tuning if the operator chose it.
package effective

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// CacheNode is a CacheNode with its effective spec. It is a copy, so the object that it was made from does not change.
// [Of] makes it.
type CacheNode struct {
	*v1alpha1.CacheNode
	// Tuning says what the operator chose, and why; it goes into status.tuning.
	Tuning []string
}

// Of makes the choices that the spec leaves open. before says what the CacheNode has had so far.
func Of(cacheNode *v1alpha1.CacheNode, before Before) CacheNode {
	e := CacheNode{CacheNode: cacheNode.DeepCopy()}
	e.Spec, e.Tuning = Resolve(e.Spec, before)
	return e
}

// Before says what an edit of this CacheNode finds.
func (c CacheNode) Before() Before {
	before := Before{Serving: WithoutTier, Routing: c.Spec.Routing.Mode}
	switch {
	case HasMemoryTier(c.Spec):
		before.Serving = WithTier
	case c.Spec.IO.Mode == v1alpha1.IOWorkers:
		before.Serving = WithWorkers
	}
	if ptr.Deref(c.Spec.Replicas, 1) <= 1 && before.Routing == v1alpha1.RoutingLocal {
		before.Routing = ""
	}
	return before
}
