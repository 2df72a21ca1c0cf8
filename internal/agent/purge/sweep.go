package purge

import (
	"context"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
)

// SetRules sets the rules by which sweeps of the disks keep files. Before the first call, there are no sweeps.
func (p *Purger) SetRules(r sweep.Rules) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rules = r.After(p.rules, p.Clock.Now())
}

// sweep sweeps a disk at intervals until the context ends. It does not sweep the memory tier, because the tier is small
// and nginx itself keeps few stale objects in it.
func (s *store) sweep(ctx context.Context, k *index.Keeper) {
	if s.isMemory() {
		return
	}
	sweeper := sweep.Sweeper{
		Disk: s.name, Keeper: k, Log: s.purger.log, Clock: s.purger.Clock,
		Rules:   func() (sweep.Rules, bool) { return s.sweepRules(k) },
		Removed: func(reason sweep.Reason) { s.purger.removed(s.name, reason) },
	}
	sweeper.Run(ctx)
}

// sweepRules returns the present rules. ok is false while the disk has not applied all purges, while the index is not
// complete, or while nginx does not use the disk.
func (s *store) sweepRules(k *index.Keeper) (r sweep.Rules, ok bool) {
	p := s.purger
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	r = p.rules
	r.Generations = []int64{s.generations.Base}
	if g := s.generations.Cover; g != 0 {
		r.Generations = append(r.Generations, g)
	}
	return r, !p.rules.Since.IsZero() && s.inUse && s.applied >= p.book.journal.Head && s.IsUsable() && k.Complete()
}

// removeOrphans removes the temporary files of killed nginx processes, until the context ends.
func (s *store) removeOrphans(ctx context.Context) {
	if s.purger.Processes == nil {
		return
	}
	folders := []string{s.Folder}
	if s.Refresh != "" {
		folders = append(folders, s.Refresh)
	}
	orphans := sweep.Orphans{
		Store: s.name, Folders: folders, Log: s.purger.log, Processes: s.purger.Processes, IsUsable: s.IsUsable,
		Clock:   s.purger.Clock,
		Removed: func() { s.purger.removed(s.name, sweep.Orphan) },
	}
	orphans.Run(ctx)
}
