package purge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// stored contains the encoded segments, in the form in which the API server stores them.
type stored [purge.Slots][]byte

// write writes the changed segments, but not more than the given number. It fails the test if a segment is too large.
func (s *stored) write(t *testing.T, l *purge.Log, most int) {
	t.Helper()
	slots, segments := l.Changed()
	for i, slot := range slots[:min(most, len(slots))] {
		text, err := segments[i].Encode()
		must(t, err)
		if len(text) > 1<<20 {
			t.Fatalf("a segment has %d bytes", len(text))
		}
		s[slot] = text
	}
}

func (s *stored) open(t *testing.T) *purge.Log {
	t.Helper()
	var segments [purge.Slots]*purge.Segment
	for i, text := range s {
		if text == nil {
			continue
		}
		segment, err := purge.DecodeSegment(text)
		must(t, err)
		segments[i] = &segment
	}
	return purge.OpenLog(segments)
}

// TestLog simulates operators that write a journal over a long time. Sometimes an operator ends in the middle of its
// writes, and another operator goes on. A change that was written completely is never lost, and no place is given
// twice.
func TestLog(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	now := time.Unix(1_800_000_000, 0)
	var s stored
	l := purge.NewLog(7)
	committed := l.Journal
	full, ends := 0, 0
	for step := range 600 {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		next := l.Clone()
		for range r.IntN(6) {
			rule := purge.Rule{UID: fmt.Sprint(step), Target: purge.Target{Tags: []string{"a"}}}
			for range r.IntN(200) {
				rule.URLs = append(rule.URLs, fmt.Sprintf("http://a/%d/%s", step, strings.Repeat("x", r.IntN(50))))
			}
			if !next.Add(now, rule) {
				full++
				next.Compact(now.Add(-time.Hour), next.Size()*3/4, next.Head)
			}
		}
		for _, rule := range next.Rules {
			if rule.Until.IsZero() && r.IntN(5) == 0 {
				next.Seal(now, rule.Number, now)
				ends++
			}
		}
		if step%100 == 0 {
			next.Compact(now.Add(-10*time.Minute), purge.Unlimited, next.Head)
		}
		slots, _ := next.Changed()
		if len(slots) == 0 {
			continue
		}
		if r.IntN(10) > 0 {
			s.write(t, next, len(slots))
			next.Written()
			l, committed = next, next.Journal
		} else { // the operator ends in the middle of its writes
			s.write(t, next, r.IntN(len(slots)))
			l = s.open(t)
			if l.Head < committed.Head || l.Floor > next.Floor {
				t.Fatalf("step %d: %d to %d were written, and %d to %d are read",
					step, committed.Floor, committed.Head, l.Floor, l.Head)
			}
			want := next.Journal
			if l.Head == committed.Head {
				want = committed
			}
			same(t, want, l.Journal)
			committed = l.Journal
		}
		if step%50 == 0 && l.Head == committed.Head {
			same(t, l.Journal, s.open(t).Journal)
		}
	}
	if full == 0 || ends < 300 {
		t.Errorf("the journal was full %d times, and had %d ends", full, ends)
	}
}

// same compares the parts that both journals contain: the rules above the higher floor, up to the lower head.
func same(t *testing.T, want, got purge.Journal) {
	t.Helper()
	floor, head := max(want.Floor, got.Floor), min(want.Head, got.Head)
	part := func(j purge.Journal) (list []purge.Rule) {
		for _, r := range j.Rules {
			if r.Changed > head && r.Number <= head {
				r.Changed, r.Until = r.Number, time.Time{} // at that head, the rule had no end yet
			}
			if r.Number <= head && r.Changed > floor {
				list = append(list, r)
			}
		}
		return list
	}
	// A comparison of all texts would be slow.
	short := cmp.Transformer("short", func(t purge.Target) string { return fmt.Sprintf("%d %v", len(t.URLs), t.Tags) })
	if diff := cmp.Diff(part(want), part(got), cmpopts.EquateApproxTime(0), short); diff != "" {
		t.Fatalf("the journal from %d to %d (-want +got):\n%.2000s", floor, head, diff)
	}
}

// TestRestart starts a new journal in place of a journal whose last part is lost.
func TestRestart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, after := range map[string]int64{"later": 1_900_000_000_000, "nothing is known": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s stored
			l := purge.NewLog(0)
			for range 3 {
				if !l.Add(now, purge.Rule{}) {
					t.Fatal("the journal is full")
				}
			}
			s.write(t, l, purge.Slots)
			l = s.open(t)
			before := l.Head
			l.Restart(after)
			want := max(before, after)
			if l.Floor != want || l.Head != want || len(l.Rules) != 0 {
				t.Errorf("it begins as %+v, want %d", l.Journal, want)
			}
			if !l.Add(now, purge.Rule{}) {
				t.Fatal("the journal is full")
			}
			s.write(t, l, purge.Slots)
			same(t, l.Journal, s.open(t).Journal)
			if got := s.open(t); got.Floor != want || len(got.Rules) != 1 {
				t.Errorf("it is stored as %+v", got.Journal)
			}
		})
	}
}

func TestLostSegment(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := purge.NewLog(0)
	url := strings.Repeat("x", 1000)
	n := 0
	for l.Add(now, purge.Rule{Target: purge.Target{URLs: []string{url}}}) {
		n++
	}
	var s stored
	slots, segments := l.Changed()
	s.write(t, l, len(slots))
	if len(slots) < purge.Slots-1 || n < purge.Slots*200 {
		t.Errorf("the journal is full with %d rules in %d segments", n, len(slots))
	}
	if got := s.open(t); len(got.Rules) != n {
		t.Errorf("%d rules are read, want %d", len(got.Rules), n)
	}
	for i, slot := range slots {
		lost := s
		lost[slot] = nil
		got := lost.open(t)
		rest := append(slices.Clone(segments[:i]), segments[i+1:]...)
		if isMiddle := i > 0 && i < len(slots)-1; isMiddle && !purge.HasGap(rest) || purge.HasGap(segments) {
			t.Errorf("the gap without segment %d is not seen, or one that is none", i)
		}
		switch {
		case i == len(slots)-1:
			if got.Head != segments[i].After {
				t.Errorf("without the last segment, the head is %d, want %d", got.Head, segments[i].After)
			}
		case got.Floor != segments[i].Head || got.Head != l.Head || got.Rules[0].Number <= got.Floor:
			t.Errorf("without segment %d: %d to %d, want %d to %d", i, got.Floor, got.Head, segments[i].Head, l.Head)
		}
	}
	// There must still be room for the ends of all rules.
	for _, r := range l.Rules {
		l.Seal(now, r.Number, now)
	}
	slots, _ = l.Changed()
	s.write(t, l, len(slots))
	for _, r := range s.open(t).Rules {
		if r.Until.IsZero() {
			t.Fatalf("rule %d has no end", r.Number)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
