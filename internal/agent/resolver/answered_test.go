package resolver

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestUnanswered checks for which names nginx has used an answer since a time, which a second query shows. A failure is
// no answer. A name without addresses has an answer at once.
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
	tell := func(a, b, c Result) {
		for name, result := range map[string]Result{"a.example.com": a, "b.example.com": b, "c.example.com": c} {
			r.note(name, found{result: result})
		}
	}
	tell(Resolved, Failed, Absent)
	check("c has no address, and b no answer", started, "A.example.com", "b.example.com")
	step(round / 2)
	tell(Resolved, Resolved, Failed)
	check("another worker asks for a", started, "A.example.com", "b.example.com")
	step(round)
	tell(Resolved, OnlyDenied, Failed)
	check("nginx asks for a again, and b is denied", started)

	step(time.Second)
	restarted := clock.Now()
	tell(Resolved, Resolved, Resolved)
	check("nginx has restarted", restarted, names...)
	step(round)
	tell(NoPod, Resolved, Failed)
	check("nginx has asked again for two names", restarted, "c.example.com")
}
