package index

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// poll replaces a [Watch] when the user has no inotify watches left. It makes the keeper rescan all folders that have
// changed, at intervals and before each answer of [Keeper.Sync].
type poll struct {
	wake chan struct{}
	// last is when Next last asked for a rescan, and pause the time until it does again.
	last  time.Time
	pause time.Duration
}

// A pause lasts pollShare times as long as a rescan, and from pollAtLeast to pollAtMost.
const (
	pollAtLeast = 5 * time.Second
	pollAtMost  = time.Minute
	pollShare   = 20
)

func newPoll() *poll {
	return &poll{wake: make(chan struct{}, 1), last: time.Now(), pause: pollAtLeast}
}

// took sets the pause by how long a rescan has taken.
func (p *poll) took(d time.Duration) { p.pause = min(max(pollAtLeast, pollShare*d), pollAtMost) }

// Next returns [ErrOverflow] when the folders are to be rescanned.
func (p *poll) Next(wait time.Duration) (files []cachekey.File, all bool, err error) {
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

// Wake makes the next call of Next return [ErrOverflow].
func (p *poll) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Close does nothing.
func (p *poll) Close() error { return nil }
