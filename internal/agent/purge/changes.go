package purge

import (
	"context"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// maxChanges is the largest number of URLs that wait to be made stale. After changesAtOnce URLs at most, an applier
// applies new purges before it makes further URLs stale. Each URL is made stale in the memory tier a second time,
// lookAgainAfter later or up to one second after that.
const (
	maxChanges     = 1024
	changesAtOnce  = 32
	lookAgainAfter = 2 * time.Second
)

// MakeStale makes the cached objects of a URL stale without a purge. Unlike a purge, it affects only this pod, and is
// not applied to files that nginx stores later. It returns before the objects are stale. If too many URLs wait, it
// drops the oldest URL.
func (p *Purger) MakeStale(url string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.makeStale(url)
}

// makeStale does what MakeStale does, for a caller that holds the mutex. The memory tier may be copying the object
// from the disk at that moment, so the URL is made stale in the memory tier a second time.
func (p *Purger) makeStale(url string) {
	p.addChange(change{url, false})
	p.again = append(p.again, again{url, p.Clock.Now().Add(lookAgainAfter)})
	p.again = p.again[max(0, len(p.again)-maxChanges):]
}

// again is a URL that must be made stale in the memory tier a second time, and the time at which this is due.
type again struct {
	url string
	at  time.Time
}

// lookAgain takes the URLs that are due from p.again, and makes them stale in the memory tier a second time.
func (p *Purger) lookAgain() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for now := p.Clock.Now(); len(p.again) > 0 && !p.again[0].at.After(now); p.again = p.again[1:] {
		p.addChange(change{p.again[0].url, true})
	}
}

// change is a URL that must be made stale. If inMemory is true, it must be made stale only in the memory tier.
type change struct {
	url      string
	inMemory bool
}

// addChange adds a change, which all stores then take. The caller holds the mutex.
func (p *Purger) addChange(c change) {
	p.changes = append(p.changes, c)
	p.changesSeen++
	if len(p.changes) > maxChanges {
		p.changes = p.changes[1:]
	}
	p.notify()
}

// takeChanges returns the tasks for the next URLs, and whether more URLs wait.
func (a *applier) takeChanges() (tasks []task, more bool) {
	p := a.purger
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	a.changesSeen = max(a.changesSeen, p.changesSeen-int64(len(p.changes))) // older URLs were dropped
	for ; a.changesSeen < p.changesSeen && len(tasks) < changesAtOnce; a.changesSeen++ {
		c := p.changes[int64(len(p.changes))-(p.changesSeen-a.changesSeen)]
		if c.inMemory && !a.isMemory() {
			continue
		}
		r := purge.Rule{Soft: true, Until: p.Clock.Now(), Target: purge.Target{URLs: []string{c.url}}}
		tasks = append(tasks, p.book.task(r))
	}
	return tasks, a.changesSeen < p.changesSeen
}

// change makes the objects of the next URLs stale. more is true if more URLs wait. change does not wait until the
// index is complete. It can therefore miss a variant or a slice that nginx has just stored.
func (a *applier) change(ctx context.Context, k *index.Keeper) (more bool, err error) {
	tasks, more := a.takeChanges()
	if _, err := a.hitKeys(tasks); err != nil { // these files become stale, and stay
		return false, err
	}
	return more, a.resolve(ctx, k, tasks)
}
