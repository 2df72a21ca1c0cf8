package purgeapi

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// codeOfError is the status code of an error, 0 for none.
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
	begun := time.Now()
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
		if err := b.take(fmt.Sprint(i), 1, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.users.Len(); n != maxUsers {
		t.Errorf("%d users are remembered, want %d", n, maxUsers)
	}
}

// TestPlaces checks that all users together, and each of them, have a limit, and that places become free.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := &places{most: 4, users: map[string]int{}}
	take := func(user string, want int) func() {
		t.Helper()
		free, err := p.take(user)
		if codeOfError(err) != want {
			t.Errorf("%s: %v, want code %d", user, err, want)
		}
		return free
	}
	first := take("a", 0)
	others := []func(){take("a", 0), take("b", 0)}
	take("a", 503)
	others = append(others, take("c", 0))
	take("d", 503)
	first()
	others = append(others, take("d", 0))
	for _, free := range others {
		free()
	}
	if p.taken != 0 || len(p.users) != 0 {
		t.Errorf("%d places of %v are left", p.taken, p.users)
	}
}
