// Package await provides the functions with which tests wait for a state instead of a fixed time.
package await

import (
	"testing"
	"time"
)

// Patience is the longest time for which a test waits for a state or for an answer. It is much longer than any step
// takes on a busy machine, so only a test that fails waits that long.
const Patience = 5 * time.Minute

// interval is the time between two checks.
const interval = 10 * time.Millisecond

// True waits until the function is returns true. problem is the message of the failure if the function does not return
// true in time.
func True(t testing.TB, problem string, is func() bool) {
	t.Helper()
	Until(t, func() string {
		if is() {
			return ""
		}
		return problem
	})
}

// Until waits until the function missing returns "". Any other result of this function describes the problem that still
// exists.
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

// Receive waits for the next value of a channel, or until the channel is closed. problem is the message of the
// failure if neither happens in time.
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

// Deadline returns the time at which a wait that begins now must end, for example as the deadline of a connection.
func Deadline() time.Time { return time.Now().Add(Patience) }
