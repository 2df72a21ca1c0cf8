package purge

import (
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
)

// Changes returns the last URLs that were to be made stale until now, those in memory only with a mark.
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

// Note makes a disk note what it obeys, if the copy of the journal ends at a place. The goroutines must have ended.
func (p *Purger) Note(disk string, saved int64) error {
	a := applier{store: p.stores[disk]}
	return a.note(p.book.journal.Head, saved)
}

// SweepRules returns the rules by which a disk could be swept now, if it were behind with so many purges more.
func (p *Purger) SweepRules(disk string, behind int64) (r sweep.Rules, ok bool) {
	p.mutex.Lock()
	s := p.stores[disk]
	k := s.keeper
	s.applied -= behind // until the store looks at it, within a second
	p.mutex.Unlock()
	if k == nil {
		return r, false
	}
	return s.sweepRules(k)
}
