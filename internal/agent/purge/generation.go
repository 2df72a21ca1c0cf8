package purge

import (
	"os"
	"path/filepath"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
)

// generations are those of a disk's keys. nginx stores and finds objects under Cover while that is not 0, and else
// under Base. Each number is greater than those before it, so nothing of an earlier one can be found again, but for
// what is under Base while there is a Cover.
type generations struct {
	// Base is another one for a disk that has missed purges that nobody knows any more.
	Base int64 `json:"generation,omitempty"`
	// Cover hides what the disk has while its index cannot say which objects a purge is about.
	Cover int64 `json:"cover,omitempty"`
	// Last is the greatest one so far.
	Last int64 `json:"lastGeneration,omitempty"`
}

// active is the one that nginx is to use.
func (g generations) active() int64 {
	if g.Cover != 0 {
		return g.Cover
	}
	return g.Base
}

// next returns a number for a new one.
func (g *generations) next(place int64) int64 {
	g.Last = max(g.Last+1, place)
	return g.Last
}

// hideAfter is how long a purge waits for an index that is being rebuilt, and a disk for the journal, before what the
// disk has is hidden. A disk that nginx does not use waits for unusedWaits times as long, because its index is rebuilt
// much faster then. hideAgainAfter is the time between two covers of a disk.
const (
	hideAfter      = 10 * time.Second
	unusedWaits    = 6
	hideAgainAfter = 30 * time.Second
)

// Generations are those that nginx is to use, by disk, without those that are 0.
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

// SetHides says whether what a disk has is hidden while its index cannot answer a purge. By default, it is not.
func (p *Purger) SetHides(hides bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.hides = hides
}

// isBehind is true while nginx finds objects of a generation that is no longer to be used. The caller holds the mutex.
func (s *store) isBehind() bool { return s.inUse && s.taken < s.generations.Base }

// place is the last place in the journal that what nginx serves from the store obeys. The caller holds the mutex.
func (s *store) place() int64 {
	if s.isBehind() {
		return 0
	}
	return s.applied
}

// renew gives a disk that is older than the journal a new generation, so that nginx finds nothing of what it has.
func (s *store) renew() error {
	p := s.purger
	p.mutex.RLock()
	isOlder, next := s.knows() && s.isOlder(), s.state(p.journal.Floor)
	head := p.journal.Head
	p.mutex.RUnlock()
	if !isOlder {
		return nil
	}
	isEmpty, err := isEmpty(s.Folder)
	if err != nil {
		return err
	}
	if !isEmpty {
		next.Base, next.Cover = next.next(head), 0
		p.log.Warn("the disk has missed purges that are no longer known: what it has is not served any more", "disk", s.name)
	}
	if err := s.write(next); err != nil {
		return err
	}
	s.set(func() {
		s.generations, s.applied, s.reached, s.covers = next.generations, next.Applied, next.Applied, false
	})
	s.changed()
	return nil
}

// isOlder is true for a disk that is older than the journal. The caller holds the mutex.
func (s *store) isOlder() bool { return !s.isMemory() && s.reached < s.purger.journal.Floor }

// cover has nginx use another Cover of a disk. What the file State says that the disk obeys stays: the rest may not be
// on the disk yet.
func (s *store) cover(change func(*generations)) error {
	s.purger.mutex.RLock()
	next := state{s.Owner, s.kept, s.keptPolicies, s.generations}
	s.purger.mutex.RUnlock()
	change(&next.generations)
	if err := s.write(next); err != nil {
		return err
	}
	s.set(func() { s.generations, s.covers = next.generations, next.Cover != 0 })
	s.changed()
	return nil
}

// changed tells the agent that the disk has other generations.
func (s *store) changed() {
	if s.purger.Current != nil {
		s.purger.Current()
	}
}

// hide hides what a disk has, once something has waited for long enough: a rule that changed at a place, or the
// journal, for which the place is 0. lost says how often the index has lost events: what nginx stores under a cover is
// known until it loses some.
func (s *store) hide(place, lost int64) error {
	p, now := s.purger, time.Now()
	p.mutex.RLock()
	hides, isCovered := p.hides && !s.isMemory(), s.covers && (lost == s.lost || place <= s.covered)
	head, patience := p.journal.Head, p.HideAfter
	if !s.inUse {
		patience *= unusedWaits
	}
	p.mutex.RUnlock()
	if s.waits.IsZero() {
		s.waits = now
	}
	if !hides || isCovered || now.Sub(s.waits) < patience || now.Sub(s.hidden) < hideAgainAfter {
		return nil
	}
	s.hidden, s.lost, s.covered, s.partly = now, lost, head, 0
	p.log.Warn("what the disk has is hidden until its index is complete", "disk", s.name)
	return s.cover(func(g *generations) { g.Cover = g.next(head) })
}

// awaitIndex says why purges wait, and hides what the disk has if one of them waits for the index for too long.
func (s *store) awaitIndex(k *index.Keeper, tasks []task) error {
	s.explain(s.rebuilding())
	s.purger.mutex.RLock()
	inUse := s.inUse
	s.purger.mutex.RUnlock()
	if place, ok := needsIndex(tasks); ok || !inUse { // a disk that is not in use waits for purges of URLs too
		return s.hide(place, k.Lost())
	}
	return nil
}

// rebuilding is why a purge waits while the index is not complete.
func (s *store) rebuilding() string {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	if s.covers && s.taken == s.generations.Cover {
		return "the index is being rebuilt; what the disk had is not served until then"
	}
	return "the index is being rebuilt"
}

// show ends hide.
func (s *store) show() error {
	s.waits, s.partly = time.Time{}, 0
	s.purger.mutex.RLock()
	isHidden := s.generations.Cover != 0
	s.purger.mutex.RUnlock()
	if !isHidden {
		return nil
	}
	s.purger.log.Info("what the disk has is served again", "disk", s.name)
	return s.cover(func(g *generations) { g.Cover = 0 })
}

// needsIndex is the last change of the rules about objects whose files only an index can name. ok is false if there are
// none: the main file of a URL is known, and its variants and slices wait.
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

// usedGenerations are those by which nginx can find objects, now or when nothing is hidden any more.
func (s *store) usedGenerations() []int64 {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	if g := s.generations; g.Cover != 0 {
		return []int64{g.Base, g.Cover}
	}
	return []int64{s.generations.Base}
}

// isEmpty is true for a cache without files.
func isEmpty(cache string) (bool, error) {
	for folder := range index.Folder(index.Folders) {
		names, err := os.ReadDir(filepath.Join(cache, folder.Path()))
		if err != nil && !os.IsNotExist(err) {
			return false, err
		}
		for _, name := range names {
			if _, ok := index.ParseFile(name.Name()); ok {
				return false, nil
			}
		}
	}
	return true, nil
}
