package nginxtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/await"
)

// Now returns the time by nginx's clock, for certificates, headers and the content of files. No test measures time by
// it.
func Now() time.Time { return time.Now() }

// Becomes asks repeatedly until the answer is the wanted one. It is for states that another process brings about.
// nginx stores a response after the client has it, writes its log when it likes, and replaces its workers one by one.
func Becomes(t testing.TB, want string, ask func() string) {
	t.Helper()
	await.Until(t, func() string {
		if got := ask(); got != want {
			return fmt.Sprintf("got %q, want %q", got, want)
		}
		return ""
	})
}

// Await asks repeatedly until the answer is yes. It returns false if the answer is still no when the time is over.
func Await(limit time.Duration, is func() bool) bool {
	const pause = 5 * time.Millisecond // leaves the processor to whom the test waits for
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
