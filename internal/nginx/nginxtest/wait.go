package nginxtest

import (
	"testing"
	"time"
)

// patience is how long a client waits for an answer, and a test for a state: much longer than they take on a busy
// machine. It only ends a test that fails.
const patience = time.Minute

// Becomes asks until the answer is the one that is wanted, which another process brings about: nginx stores a response
// after the client has it, writes its log when it likes, and replaces its workers one by one.
func Becomes(t testing.TB, want string, ask func() string) {
	t.Helper()
	const pause = 5 * time.Millisecond // leaves the processor to whom the test waits for
	end, ticks := time.After(patience), time.NewTicker(pause)
	defer ticks.Stop()
	for got := ask(); got != want; got = ask() {
		select {
		case <-end:
			t.Fatalf("got %q to the end, want %q", got, want)
		case <-ticks.C:
		}
	}
}
