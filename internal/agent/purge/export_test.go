package purge

import (
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
)

// Changes returns the last URLs that the purger was asked to make stale. It marks the URLs that must be made stale only
// in the memory tier.
func (p *Purger) Changes() (urls []string) {
	p.lookAgain()
	for _, c := range p.changes {
		if c.inMemory {
			c.url = "in memory: " + c.url
		}
		urls = append(urls, c.url)
	}
	return urls
}

// Reason returns why a store is behind.
func (p *Purger) Reason(store string) string {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.stores[store].reason
}

// Note makes a disk record the place up to which it obeys the journal. saved is the place at which the copy of the
// journal ends. The goroutines of the stores must have ended.
func (p *Purger) Note(disk string, saved int64) error {
	a := applier{store: p.stores[disk]}
	return a.note(p.book.journal.Head, saved)
}

// SweepRules returns the rules for a sweep of a disk that is further behind the journal than it really is. behind is
// the number of places by which SweepRules sets the disk back.
func (p *Purger) SweepRules(disk string, behind int64) (r sweep.Rules, ok bool) {
	p.mutex.Lock()
	s := p.stores[disk]
	k := s.keeper
	s.applied -= behind // until the next step of the store, within a second
	p.mutex.Unlock()
	if k == nil {
		return r, false
	}
	return s.sweepRules(k)
}
