package purge

import (
	"context"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// maxChanges is how many URLs wait at most to be made stale.
const maxChanges = 1024

// MakeStale makes what is cached for a URL stale, without a purge: in this pod only, and once. It does not wait. If too
// many URLs wait, the oldest one is forgotten.
func (p *Purger) MakeStale(url string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.changes = append(p.changes, url)
	p.changesSeen++
	if len(p.changes) > maxChanges {
		p.changes = p.changes[1:]
	}
	p.notify()
}

// takeChanges are the tasks of the URLs that have come since the last call.
func (s *store) takeChanges() (tasks []task) {
	p := s.purger
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	news := min(p.changesSeen-s.changesSeen, int64(len(p.changes)))
	s.changesSeen = p.changesSeen
	for _, url := range p.changes[int64(len(p.changes))-news:] {
		r := purge.Rule{Soft: true, Until: time.Now(), Target: purge.Target{URLs: []string{url}}}
		tasks = append(tasks, task{r, p.patterns(r)})
	}
	return tasks
}

// change makes stale what the URLs are about that have come. The index may not have a variant or a slice that was
// stored right now: all of that is as good as can be done without waiting.
func (s *store) change(ctx context.Context, k *index.Keeper) error {
	for _, t := range s.takeChanges() {
		if err := s.hitKeys(t); err != nil {
			return err
		}
		if err := s.resolve(ctx, k, t); err != nil {
			return err
		}
	}
	return nil
}
