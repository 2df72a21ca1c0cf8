package resolver

import (
	"slices"
	"time"
)

// round is the least time between two answers after which the second query shows that nginx has used the first answer.
// nginx asks again when the TTL is over, which is a second or more. Several workers may ask for a name at about the
// same time.
const round = 500 * time.Millisecond

// fresh is a time within which nginx asks for each name in its configuration. If nginx has not asked for a name for
// longer, the name counts as new, and its first answer has the shortest TTL.
const fresh = 30 * time.Second

// answers contains the times of the last answers that nginx got for a name.
type answers struct {
	// before and last are the times of the last two answers with addresses that are at least a round apart.
	before, last time.Time
	// none is the time of the last answer without an address.
	none time.Time
}

// noteAnswer stores the time of an answer for a name. The caller must hold the mutex.
func (r *Resolver) noteAnswer(name string, f found) {
	a, known := r.answered[name]
	if !known && len(r.answered) >= maxNames {
		clear(r.answered)
	}
	switch f.result {
	case Failed:
		return
	case Absent, OnlyDenied:
		a.none = f.at
	case Resolved, NoPod:
		if f.at.Sub(a.last) >= round {
			a.before, a.last = a.last, f.at
		}
	}
	r.answered[name] = a
}

// isNew returns true if nginx has not asked for a name recently. The caller must hold the mutex.
func (r *Resolver) isNew(name string, now time.Time) bool {
	return now.Sub(r.answered[name].last) >= fresh
}

// Unanswered returns those of the names for which nginx has used no answer that it got since the given time. nginx asks
// again for a name when it has used the last answer. An answer without an address counts at once, because nginx has
// nothing to use.
func (r *Resolver) Unanswered(names []string, since time.Time) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		a := r.answered[canonical(name)]
		isSince := func(at time.Time) bool { return !at.IsZero() && !at.Before(since) }
		return isSince(a.before) || isSince(a.none)
	})
}
