// Package steps runs the steps of a test that depend on each other. The steps are not subtests, because the go
// command can run a subtest alone.
package steps

import "testing"

// Run runs a step, and writes the step's name to the test's output before. A failure in the output belongs to the last
// step that is named before it.
func Run(t *testing.T, name string, step func()) {
	t.Helper()
	t.Log("step: " + name)
	step()
}
