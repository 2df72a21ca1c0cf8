package await

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that records its failure.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, _ ...any) { f.failure = format; panic(f) }

// fails calls a function that waits for something that never happens. It checks that the function makes the test fail,
// and returns how long the function has waited.
func fails(t *testing.T, wait func(testing.TB)) (waited time.Duration) {
	t.Helper()
	f, begun := &failing{TB: t}, time.Now()
	defer func() {
		if recover() == nil || !strings.Contains(f.failure, "after %s") {
			t.Errorf("the test does not fail: %q", f.failure)
		}
		waited = time.Since(begun)
	}()
	wait(f)
	return 0
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		True(t, "it is not", func() bool { looks++; return looks == 3 })
		if looks != 3 {
			t.Errorf("%d looks, want 3", looks)
		}
		values := make(chan string, 1)
		values <- "a"
		if got := Receive(t, "it does not come", values); got != "a" {
			t.Errorf("received %q, want a", got)
		}
		for name, wait := range map[string]func(testing.TB){
			"True":    func(t testing.TB) { True(t, "never", func() bool { return false }) },
			"Receive": func(t testing.TB) { Receive(t, "never", values) },
		} {
			if waited := fails(t, wait); waited < Patience || waited > Patience+time.Second {
				t.Errorf("%s waits for %s, want %s", name, waited, Patience)
			}
		}
	})
}
