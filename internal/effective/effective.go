// Package effective computes the spec that the operator acts on. This is the user's spec, with the operator's choices
// where the spec leaves a choice open, and with the defaults that depend on other fields. These defaults are in code
// and not in the CRD, so that later versions can improve them. The package is pure. Its functions take a spec that
// includes the CRD's own defaults.
//
// The package may import the API's types, shard and fleet. A new default that depends on other fields belongs here. If
// the operator chooses the value, it also needs a sentence for status.tuning.
package effective

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// CacheNode is a CacheNode with its effective spec. [Of] creates it from a copy, so the original object does not
// change.
type CacheNode struct {
	*v1alpha1.CacheNode
	// Tuning lists the choices of the operator and the reasons for them. It becomes status.tuning.
	Tuning []string
}

// Of returns the CacheNode with its effective spec: it makes the choices that the spec leaves open. before contains
// the choices that the operator has made for the CacheNode so far.
func Of(cacheNode *v1alpha1.CacheNode, before Before) CacheNode {
	e := CacheNode{CacheNode: cacheNode.DeepCopy()}
	e.Spec, e.Tuning = Resolve(e.Spec, before)
	return e
}

// Before returns the choices that are in effect for this CacheNode. After an edit, the caller passes them to [Of] as
// the argument before.
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
