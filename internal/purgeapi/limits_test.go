package purgeapi

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// codeOfError returns the status code of an error; 0 if there is no error.
func codeOfError(err error) int {
	if p, isOurs := errors.AsType[*problem](err); isOurs {
		return p.code
	}
	return 0
}

// TestBudgets checks how many items a user may purge, and when the user may purge more. Each user has a separate
// budget.
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
		{"a", 100 * time.Millisecond, 1, 0}, // a refused request costs nothing
		{"a", 3 * time.Second, 20, 0},
	} {
		if err := b.take(step.user, step.cost, begun.Add(step.at)); codeOfError(err) != step.want {
			t.Errorf("step %d: %v, want code %d", i, err, step.want)
		}
	}
}

// TestBudgetsAreBounded checks that the number of remembered budgets has a limit.
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

// TestShares checks the limit of all users together and the limit of each user. An amount that was given back can be
// reserved again.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares(10, 6)
	for i, step := range []struct {
		user   string
		amount int64 // a negative amount is given back
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
