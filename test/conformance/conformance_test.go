// Package conformance runs the conformance suite of the Gateway API. It is a module of its own, because the suite needs
// other versions of libraries than the operator. See run, which starts it in a cluster.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// TestConformance runs the suite with the options in the flags.
func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}
