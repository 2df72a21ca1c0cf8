package index

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// poll replaces a [Watch] when the user has no inotify watches left. At intervals and before each answer of
// [Keeper.Sync], poll makes the keeper rescan all folders that have changed.
type poll struct {
	clock clock.Clock
	wake  chan struct{}
	// ended is a channel that ends a wait when it is closed.
	ended <-chan struct{}
	// last is the time at which Next last requested a rescan. pause is the time from last to the next request.
	last  time.Time
	pause time.Duration
}

// A pause lasts pollShare times as long as the last rescan, but at least pollAtLeast and at most pollAtMost.
const (
	pollAtLeast = 5 * time.Second
	pollAtMost  = time.Minute
	pollShare   = 20
)

func newPoll(ctx context.Context, c clock.Clock) *poll {
	return &poll{clock: c, wake: make(chan struct{}, 1), ended: ctx.Done(), last: c.Now(), pause: pollAtLeast}
}

// took sets the pause according to the duration of the last rescan.
func (p *poll) took() { p.pause = min(max(pollAtLeast, pollShare*p.clock.Since(p.last)), pollAtMost) }

// Next returns [ErrOverflow] when the folders must be rescanned.
func (p *poll) Next(wait time.Duration) (files []cachekey.File, all bool, err error) {
	if !p.isAsked(min(wait, p.pause-p.clock.Since(p.last))) && p.clock.Since(p.last) < p.pause {
		return nil, true, nil
	}
	p.last = p.clock.Now()
	return nil, false, ErrOverflow
}

// isAsked waits for a call of Wake, and reports whether there was one.
func (p *poll) isAsked(wait time.Duration) bool {
	select {
	case <-p.wake:
		return true
	default:
	}
	if wait <= 0 {
		return false
	}
	timer := p.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.wake:
		return true
	case <-p.ended:
	case <-timer.C():
	}
	return false
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
