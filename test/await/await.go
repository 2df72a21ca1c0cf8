// Package await provides the functions with which tests wait for a state instead of a fixed time.
package await

import (
	"testing"
	"time"
)

// Patience is the longest time for which a test waits, and the time limit of a test's requests. It is much longer
// than anything takes on a busy machine. Only a test that fails waits that long.
const Patience = 5 * time.Minute

// interval is the time between two checks.
const interval = 10 * time.Millisecond

// True waits until a condition is true. problem describes what is wrong until the condition is true.
func True(t testing.TB, problem string, is func() bool) {
	t.Helper()
	Until(t, func() string {
		if is() {
			return ""
		}
		return problem
	})
}

// Until waits until missing returns "". While something is wrong, missing returns a description of it.
func Until(t testing.TB, missing func() string) {
	t.Helper()
	deadline := Deadline()
	for problem := missing(); problem != ""; problem = missing() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", Patience, problem)
		}
		time.Sleep(interval)
	}
}

// Receive waits for the next value of a channel, or for the end of the channel. problem describes what is wrong until
// then.
func Receive[T any](t testing.TB, problem string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		t.Fatalf("after %s: %s", Patience, problem)
		panic("unreachable")
	}
}

// Deadline returns the time at which a wait that begins now has lasted too long. It can be the deadline of a
// connection, for example.
func Deadline() time.Time { return time.Now().Add(Patience) }
