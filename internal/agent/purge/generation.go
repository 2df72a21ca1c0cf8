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
	s.purger.mutex.RLock()
	floor, head, g := s.purger.journal.Floor, s.purger.journal.Head, s.generations
	isOlder := s.knows() && s.applied < floor && !s.isMemory()
	s.purger.mutex.RUnlock()
	if !isOlder {
		return nil
	}
	isEmpty, err := isEmpty(s.Folder)
	if err != nil {
		return err
	}
	if !isEmpty {
		g.Base, g.Cover = g.next(head), 0
		s.purger.log.Warn("the disk has missed purges that are no longer known: what it has is not served any more",
			"disk", s.name)
	}
	return s.setGenerations(g, floor)
}

// setGenerations has nginx use other generations of a disk that obeys the journal up to a place.
func (s *store) setGenerations(g generations, applied int64) error {
	if err := s.writeState(applied, g); err != nil {
		return err
	}
	s.set(func() { s.generations, s.applied = g, applied })
	if s.purger.Current != nil {
		s.purger.Current()
	}
	return nil
}

// hide hides what a disk has, once something has waited for long enough. lost says how often the index has lost events:
// what nginx stores under a cover is known until it loses some.
func (s *store) hide(lost int64) error {
	p, now := s.purger, time.Now()
	p.mutex.RLock()
	g, applied, hides := s.generations, s.applied, p.hides && !s.isMemory()
	patience := p.HideAfter
	if !s.inUse {
		patience *= unusedWaits
	}
	p.mutex.RUnlock()
	if s.waits.IsZero() {
		s.waits = now
	}
	isKnown := g.Cover != 0 && lost == s.lost
	if !hides || isKnown || now.Sub(s.waits) < patience || now.Sub(s.hidden) < hideAgainAfter {
		return nil
	}
	g.Cover = g.next(p.head())
	s.hidden, s.lost, s.partly = now, lost, 0
	p.log.Warn("what the disk has is hidden until its index is complete", "disk", s.name)
	return s.setGenerations(g, applied)
}

// show ends hide.
func (s *store) show() error {
	s.waits = time.Time{}
	s.purger.mutex.RLock()
	g, applied := s.generations, s.applied
	s.purger.mutex.RUnlock()
	if g.Cover == 0 {
		return nil
	}
	g.Cover = 0
	s.purger.log.Info("what the disk has is served again", "disk", s.name)
	return s.setGenerations(g, applied)
}

func (p *Purger) head() int64 {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.journal.Head
}

// needsIndex is true for rules about objects whose files only an index can name. The main file of a URL is known, and
// its variants and slices are pending.
func needsIndex(tasks []task) bool {
	for _, t := range tasks {
		for _, p := range t.patterns {
			if len(p.Prefixes)+len(p.Tags) > 0 {
				return true
			}
		}
	}
	return false
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
