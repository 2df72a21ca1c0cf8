package index

import "time"

// poll takes the place of a [Watch] for a user that has no inotify watches left: it has all folders looked at that have
// changed, at intervals and before each answer of [Keeper.Sync].
type poll struct {
	wake chan struct{}
	// last is when the folders were last to be looked at, and pause the time until they are again.
	last  time.Time
	pause time.Duration
}

// pollAtLeast and pollAtMost bound the time between two looks that nobody has asked for, and pollShare is how many
// times longer than a look that is.
const (
	pollAtLeast = 5 * time.Second
	pollAtMost  = time.Minute
	pollShare   = 20
)

func newPoll() *poll {
	return &poll{wake: make(chan struct{}, 1), last: time.Now(), pause: pollAtLeast}
}

// took says how long a look has taken.
func (p *poll) took(d time.Duration) { p.pause = min(max(pollAtLeast, pollShare*d), pollAtMost) }

// Next returns [ErrOverflow] when the folders are to be looked at.
func (p *poll) Next(wait time.Duration) (files []File, all bool, err error) {
	if !p.isAsked(min(wait, time.Until(p.last.Add(p.pause)))) && time.Since(p.last) < p.pause {
		return nil, true, nil
	}
	p.last = time.Now()
	return nil, false, ErrOverflow
}

// isAsked waits for a call of Wake.
func (p *poll) isAsked(wait time.Duration) bool {
	select {
	case <-p.wake:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.wake:
		return true
	case <-timer.C:
		return false
	}
}

// Wake has the folders looked at by the next call of Next.
func (p *poll) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Close does nothing.
func (p *poll) Close() error { return nil }
