package nginxtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/await"
)

// Now returns the time by the clock that nginx uses, for certificates, headers and the content of files. No test
// measures durations with this clock.
func Now() time.Time { return time.Now() }

// Becomes calls ask again and again until ask returns want. It is for states that another process reaches at its own
// pace. For example, nginx stores a response after the client has received it, and replaces its workers one by one. It
// may also write its log later.
func Becomes(t testing.TB, want string, ask func() string) {
	t.Helper()
	await.Until(t, func() string {
		if got := ask(); got != want {
			return fmt.Sprintf("got %q, want %q", got, want)
		}
		return ""
	})
}

// Await calls the function is again and again until is returns true. Await returns false if this does not happen within
// the limit.
func Await(limit time.Duration, is func() bool) bool {
	const pause = 5 * time.Millisecond // gives the processor to the process for which the test waits
	end, ticks := time.After(limit), time.NewTicker(pause)
	defer ticks.Stop()
	for !is() {
		select {
		case <-end:
			return is()
		case <-ticks.C:
		}
	}
	return true
}
