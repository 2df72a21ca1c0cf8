package purge

import (
	"context"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// maxChanges is how many URLs wait at most to be made stale. After changesAtOnce of them, purges come first again. The
// memory tier is looked at again after lookAgainAfter, or up to a second later.
const (
	maxChanges     = 1024
	changesAtOnce  = 32
	lookAgainAfter = 2 * time.Second
)

// MakeStale makes what is cached for a URL stale, without a purge: in this pod only, and once. It does not wait. If too
// many URLs wait, the oldest one is forgotten.
func (p *Purger) MakeStale(url string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.makeStale(url)
}

// makeStale does what MakeStale does, for a caller that holds the mutex. The memory tier may be copying the object from
// the disk at that moment, so it is looked at again.
func (p *Purger) makeStale(url string) {
	p.addChange(change{url, false})
	p.again = append(p.again, again{url, p.Clock.Now().Add(lookAgainAfter)})
	p.again = p.again[max(0, len(p.again)-maxChanges):]
}

// again is a URL that is to be made stale in memory at a time.
type again struct {
	url string
	at  time.Time
}

// lookAgain makes URLs stale in memory again for which it is time.
func (p *Purger) lookAgain() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for now := p.Clock.Now(); len(p.again) > 0 && !p.again[0].at.After(now); p.again = p.again[1:] {
		p.addChange(change{p.again[0].url, true})
	}
}

// change is a URL that is to be made stale; inMemory is true if only the memory tier is meant.
type change struct {
	url      string
	inMemory bool
}

// addChange adds a change to those of all stores. The caller holds the mutex.
func (p *Purger) addChange(c change) {
	p.changes = append(p.changes, c)
	p.changesSeen++
	if len(p.changes) > maxChanges {
		p.changes = p.changes[1:]
	}
	p.notify()
}

// takeChanges returns the tasks of the next URLs, and whether there are more.
func (a *applier) takeChanges() (tasks []task, more bool) {
	p := a.purger
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	a.changesSeen = max(a.changesSeen, p.changesSeen-int64(len(p.changes))) // older ones are forgotten
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

// change makes stale what the next URLs are about. more is true if others wait. The index may not have a variant or a
// slice that was stored right now: all of that is as good as can be done without waiting.
func (a *applier) change(ctx context.Context, k *index.Keeper) (more bool, err error) {
	tasks, more := a.takeChanges()
	if _, err := a.hitKeys(tasks); err != nil { // they become stale, and stay
		return false, err
	}
	return more, a.resolve(ctx, k, tasks)
}
