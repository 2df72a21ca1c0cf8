package resolver

import (
	"slices"
	"time"
)

// settled is more time than nginx needs to use an answer that it has received.
const settled = 50 * time.Millisecond

// answers are the times of the first and the last answer that nginx has had for a name.
type answers struct{ first, last time.Time }

// noteAnswer notes that nginx has had an answer for a name, which also counts if it says that the name has no address.
// The caller must hold the mutex.
func (r *Resolver) noteAnswer(name string, f found) {
	if f.result == Failed {
		return
	}
	a, known := r.answered[name]
	if !known {
		if len(r.answered) >= maxNames {
			clear(r.answered)
		}
		a.first = f.at
	}
	a.last = f.at
	r.answered[name] = a
}

// Unanswered returns those of the names for which nginx has had no answer since the given time, or has it only since a
// moment ago.
func (r *Resolver) Unanswered(names []string, since time.Time) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clock.Now()
	isUsed := func(at time.Time) bool { return !at.Before(since) && now.Sub(at) >= settled }
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		a := r.answered[canonical(name)]
		return isUsed(a.first) || isUsed(a.last)
	})
}
