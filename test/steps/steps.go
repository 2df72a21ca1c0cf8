// Package steps runs the parts of a test that depend on each other. They are not subtests, because a subtest can run
// alone.
package steps

import "testing"

// Run runs a step. In the test's output, a failure belongs to the last step that is named before the failure.
func Run(t *testing.T, name string, step func()) {
	t.Helper()
	t.Log("step: " + name)
	step()
}
