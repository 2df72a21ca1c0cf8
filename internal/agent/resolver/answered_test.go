package resolver

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestUnanswered checks for which names nginx has had an answer since a time. A failure is no answer, because nginx
// asks again. A name without addresses has an answer.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := New(slog.New(slog.DiscardHandler), clock, func(Result) {})
	started := clock.Now()
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	names := []string{"A.example.com", "b.example.com", "c.example.com"}
	check := func(what string, since time.Time, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, r.Unanswered(names, since)); diff != "" && len(want)+len(r.Unanswered(names, since)) > 0 {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	check("at first", started, names...)
	r.note("a.example.com", found{result: Resolved})
	r.note("b.example.com", found{result: Failed})
	r.note("c.example.com", found{result: Absent})
	check("at once", started, names...)
	step(settled)
	check("a moment later", started, "b.example.com")
	r.note("a.example.com", found{result: Resolved})
	r.note("b.example.com", found{result: OnlyDenied})
	check("a is asked again", started, "b.example.com")
	step(settled)
	check("all are answered", started)

	restarted := clock.Now()
	step(time.Second)
	check("nginx has restarted", restarted, names...)
	r.note("a.example.com", found{result: NoPod})
	step(settled)
	check("nginx has asked once", restarted, "b.example.com", "c.example.com")
}
