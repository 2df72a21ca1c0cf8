package purge

import (
	"os"
	"path/filepath"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// generations are the generation numbers that a disk's keys can contain. nginx uses Cover if Cover is not 0, and Base
// otherwise. nginx finds only objects that were stored with the number that it uses. No number is used twice, so
// nginx never finds the objects of a former Base or Cover again.
type generations struct {
	// Base changes when the disk has missed purges that the journal no longer contains.
	Base int64 `json:"generation,omitempty"`
	// Cover hides the objects of Base while the index cannot tell which of them a purge matches; 0 if nothing is hidden.
	Cover int64 `json:"cover,omitempty"`
	// Last is the largest number that was used so far.
	Last int64 `json:"lastGeneration,omitempty"`
}

// active returns the generation that nginx must use.
func (g generations) active() int64 {
	if g.Cover != 0 {
		return g.Cover
	}
	return g.Base
}

// next returns a new number. The number is at least place, and places only grow. So even a disk whose file State was
// lost does not use a number twice.
func (g *generations) next(place int64) int64 {
	g.Last = max(g.Last+1, place)
	return g.Last
}

// hideAfter is how long a purge waits for an index, or a disk waits for the journal, before the disk's objects are
// hidden. A disk that nginx does not use waits unusedWaits times as long: its index is rebuilt much faster, and may
// be complete before this time ends. hideAgainAfter is the shortest time between the starts of two covers of a disk.
const (
	hideAfter      = 10 * time.Second
	unusedWaits    = 6
	hideAgainAfter = 30 * time.Second
)

// Generations returns the generation that nginx must use for each disk. It leaves out disks with generation 0.
func (p *Purger) Generations() map[string]int64 {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	list := map[string]int64{}
	for name, s := range p.stores {
		if g := s.generations.active(); g != 0 {
			list[name] = g
		}
	}
	return list
}

// SetHides sets whether a disk's objects are hidden while its index cannot answer a purge (spec.purge.unindexed).
// Before the first call, they are not hidden.
func (p *Purger) SetHides(hides bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.hides != hides {
		p.hides = hides
		p.notify()
	}
}

// isBehind returns true while nginx still uses a generation that is older than Base. The caller holds the mutex.
func (s *store) isBehind() bool { return s.inUse && s.taken < s.generations.Base }

// place returns the last place in the journal up to which the journal is applied to all objects that nginx serves
// from the store. The caller holds the mutex.
func (s *store) place() int64 {
	if s.isBehind() {
		return 0
	}
	return s.applied
}

// renew handles a disk that has missed purges that the journal no longer contains. If such a disk contains files, it
// gets a new Base, so that nginx finds none of its old objects.
func (a *applier) renew() error {
	p := a.purger
	p.mutex.RLock()
	isOlder, next := a.knows() && a.isOlder(), a.state(p.book.journal.Floor)
	head := p.book.journal.Head
	p.mutex.RUnlock()
	if !isOlder {
		return nil
	}
	isEmpty, err := isEmpty(a.Folder)
	if err != nil {
		return err
	}
	if !isEmpty {
		next.Base, next.Cover = next.next(head), 0
		p.log.Warn("the disk has missed purges that the journal no longer has: it begins empty", "disk", a.name)
	}
	if err := a.write(next); err != nil {
		return err
	}
	a.set(func() {
		a.generations, a.applied, a.reached, a.covers = next.generations, next.Applied, next.Applied, false
	})
	a.changed()
	return nil
}

// isOlder returns true for a disk that has missed purges that the journal no longer contains. The caller holds the
// mutex.
func (s *store) isOlder() bool { return !s.isMemory() && s.reached < s.purger.book.journal.Floor }

// cover changes the Cover of a disk. The place in the file State stays the same, because the effects of later rules
// may not have been written to the disk yet.
func (a *applier) cover(change func(*generations)) error {
	a.purger.mutex.RLock()
	next := state{a.Owner, a.kept, a.keptPolicies, a.generations}
	a.purger.mutex.RUnlock()
	change(&next.generations)
	if err := a.write(next); err != nil {
		return err
	}
	a.set(func() { a.generations, a.covers = next.generations, next.Cover != 0 })
	a.changed()
	return nil
}

// changed tells the agent that the generations of the disk have changed.
func (s *store) changed() {
	if s.purger.Current != nil {
		s.purger.Current()
	}
}

// hide hides a disk's objects after a wait for the index or for the journal. place is the place of the last rule that
// needs the index; 0 if there is no such rule. lost is how often the index has lost events. If the objects are hidden
// already, a later rule need not hide them again: the index has seen every object that was stored since they were
// hidden. This is not true if the index has lost events in the meantime.
func (a *applier) hide(place, lost int64) error {
	p, now := a.purger, a.purger.Clock.Now()
	p.mutex.RLock()
	hides, isCovered := p.hides && !a.isMemory(), a.covers && (lost == a.lost || place <= a.covered)
	head, patience := p.book.journal.Head, hideAfter
	if !a.inUse {
		patience *= unusedWaits
	}
	p.mutex.RUnlock()
	if a.waits.IsZero() {
		a.waits = now
	}
	if !hides || isCovered || now.Sub(a.waits) < patience || now.Sub(a.hidden) < hideAgainAfter {
		return nil
	}
	a.hidden, a.lost, a.covered, a.partly = now, lost, head, 0
	p.log.Warn("all objects of the disk are misses until its index is complete", "disk", a.name)
	return a.cover(func(g *generations) { g.Cover = g.next(head) })
}

// awaitIndex sets the reason for which purges wait for the index. After a while, it hides the disk's objects.
func (a *applier) awaitIndex(k *index.Keeper, tasks []task) error {
	a.explain(a.rebuilding())
	a.purger.mutex.RLock()
	inUse := a.inUse
	a.purger.mutex.RUnlock()
	if place, ok := needsIndex(tasks); ok || !inUse { // a disk that is not in use also waits for purges of URLs
		return a.hide(place, k.Lost())
	}
	return nil
}

// rebuilding returns why a purge waits while the index is not complete.
func (s *store) rebuilding() string {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	if s.covers && s.taken == s.generations.Cover {
		return "the index is being rebuilt; what the disk has is not served until then"
	}
	return "the index is being rebuilt"
}

// show ends the Cover that hide began, so that nginx finds the objects of Base again.
func (a *applier) show() error {
	a.waits, a.partly = time.Time{}, 0
	a.purger.mutex.RLock()
	isHidden := a.generations.Cover != 0
	a.purger.mutex.RUnlock()
	if !isHidden {
		return nil
	}
	a.purger.log.Info("the objects of the disk are served again", "disk", a.name)
	return a.cover(func(g *generations) { g.Cover = 0 })
}

// needsIndex returns the place of the last rule with tags, prefixes or hosts: only an index can find the files of
// such a rule. ok is false if there is no such rule. Rules that contain only URLs do not count, because the name of a
// URL's main file follows from the key of the URL.
func needsIndex(tasks []task) (place int64, ok bool) {
	for _, t := range tasks {
		for _, p := range t.patterns {
			if len(p.Prefixes)+len(p.Tags) > 0 {
				place, ok = max(place, t.Changed), true
			}
		}
	}
	return place, ok
}

// usedGenerations returns the generations whose objects nginx finds now, or will find when the Cover ends.
func (s *store) usedGenerations() []int64 {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	if g := s.generations; g.Cover != 0 {
		return []int64{g.Base, g.Cover}
	}
	return []int64{s.generations.Base}
}

// isEmpty returns true for a cache without files.
func isEmpty(cache string) (bool, error) {
	for folder := range cachekey.Folder(cachekey.Folders) {
		names, err := os.ReadDir(filepath.Join(cache, folder.Path()))
		if err != nil && !os.IsNotExist(err) {
			return false, err
		}
		for _, name := range names {
			if _, ok := cachekey.ParseFile(name.Name()); ok {
				return false, nil
			}
		}
	}
	return true, nil
}
