// Package steps runs the parts of a test that build on each other. They are no subtests, as a subtest runs alone.
package steps

import "testing"

// Run runs a step. A failure after it in the test's output, and before the next step, is one of this step.
func Run(t *testing.T, name string, step func()) {
	t.Helper()
	t.Log("step: " + name)
	step()
}
