package purgeapi

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// codeOfError returns the status code of an error, 0 for none.
func codeOfError(err error) int {
	if p, isOurs := errors.AsType[*problem](err); isOurs {
		return p.code
	}
	return 0
}

// TestBudgets checks what users may purge, each apart, and after which time they may go on.
func TestBudgets(t *testing.T) {
	t.Parallel()
	b := newBudgets(10, 20)
	begun := time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		user string
		at   time.Duration
		cost int
		want int
	}{
		{"a", 0, 21, 413},
		{"a", 0, 20, 0},
		{"a", 0, 1, 429},
		{"b", 0, 20, 0},
		{"a", 100 * time.Millisecond, 2, 429},
		{"a", 100 * time.Millisecond, 1, 0}, // a refused one costs nothing
		{"a", 3 * time.Second, 20, 0},
	} {
		if err := b.take(step.user, step.cost, begun.Add(step.at)); codeOfError(err) != step.want {
			t.Errorf("step %d: %v, want code %d", i, err, step.want)
		}
	}
}

// TestBudgetsAreBounded checks that many users take no more memory than some.
func TestBudgetsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBudgets(1, 1)
	for i := range maxUsers + 100 {
		if err := b.take(fmt.Sprint(i), 1, time.Unix(1_800_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.users.Len(); n != maxUsers {
		t.Errorf("%d users are remembered, want %d", n, maxUsers)
	}
}

// TestShares checks that all users together, and each of them, have a limit, and that what is given back can be taken
// again.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares(10, 6)
	for i, step := range []struct {
		user   string
		amount int64 // given back if it is negative
		want   bool
	}{
		{"a", 6, true},
		{"a", 1, false},
		{"b", 5, false},
		{"b", 4, true},
		{"c", 1, false},
		{"a", -2, true},
		{"c", 3, false},
		{"a", 2, true},
		{"a", -6, true},
		{"b", -4, true},
	} {
		if step.amount < 0 {
			s.give(step.user, -step.amount)
		} else if got := s.take(step.user, step.amount); got != step.want {
			t.Errorf("step %d: %t, want %t", i, got, step.want)
		}
	}
	if s.taken != 0 || len(s.users) != 0 {
		t.Errorf("%d are taken, by %v", s.taken, s.users)
	}
}
