// Package await is how tests wait: for a state, and not for a time.
package await

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what does not come, and the limit of a request that a test makes: much longer
// than anything takes on a machine that is busy. Only a test that fails waits that long.
const Patience = 5 * time.Minute

// interval is the time between two looks.
const interval = 10 * time.Millisecond

// True waits until a condition is true. problem is what is wrong until then.
func True(t testing.TB, problem string, is func() bool) {
	t.Helper()
	Until(t, func() string {
		if is() {
			return ""
		}
		return problem
	})
}

// Until waits until missing returns "". missing returns what is still wrong.
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

// Receive waits for the next value of a channel, or for its end. problem is what is wrong until then.
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

// Deadline returns the time at which what begins to wait now has waited for too long: that of a connection, for
// example.
func Deadline() time.Time { return time.Now().Add(Patience) }
