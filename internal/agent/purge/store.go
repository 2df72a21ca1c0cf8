package purge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Place is where a store is.
type Place struct {
	// Folder has nginx's files (proxy_cache_path).
	Folder string
	// State is the file with the last place in the journal that the store has applied.
	State string
	// Owner is the CacheNode whose journal it is, as NAMESPACE/NAME.
	Owner string
	// Checked is the file with the boot of the node in which files were last checked for what a crash has cut. A store
	// whose index is in memory has none.
	Checked string
	// Refresh is the folder of another cache of nginx's on the disk, whose objects are not purged; "" if there is none.
	Refresh string
	// Indexes is the folder for the index; "" keeps it in memory.
	Indexes string
	// IsUsable is true while the disk is healthy. It must not block.
	IsUsable func() bool
}

// store is a disk or the memory tier. Its goroutine applies the journal to it. The purger's mutex guards what is not
// its own.
type store struct {
	Place
	purger *Purger
	name   string

	// applied is the last place that the store obeys, read from State when the disk was found healthy. isRead is true
	// while that is so. reached is the last place that it has obeyed by some policies, perhaps by others than now. inUse
	// is true if nginx uses the store.
	applied, reached int64
	isRead, inUse    bool
	// wasRead is true once the file State was read. generations are those of the file, covers is true if hide has begun
	// their Cover since then, and taken is the generation that nginx uses.
	wasRead, covers bool
	generations     generations
	taken           int64
	// reason is why applied is behind.
	reason string
	counts map[int64]purge.Count
	// ended are the rules whose counts are to be forgotten. Only the goroutine uses it.
	ended []ended
	// keeper keeps the index while it is open.
	keeper *index.Keeper
	// changesSeen counts the URLs that were made stale. Only the goroutine uses it.
	changesSeen int64
	// waits is when the wait for the index or the journal began. hidden is when the last Cover began; covered was the
	// head of the journal then, and lost how often the index had lost events. Up to partly, rules are applied to all
	// files that the index knows, although it is not complete. Only the goroutine uses them.
	waits, hidden         time.Time
	covered, lost, partly int64
	// listing has a place for the one who lists what the store has.
	listing chan struct{}

	// pace limits how fast a rescan reads files.
	pace *rate.Limiter
	// kept and keptPolicies are what the file State has, and wasCurrent is true if the store obeyed the whole journal
	// when it was last looked at. Only the goroutine uses them.
	kept         int64
	keptPolicies string
	keptAt       time.Time
	wasCurrent   bool
}

// matters returns true if nginx uses the store, or may use it at any moment.
func (s *store) matters() bool { return s.inUse || s.IsUsable() }

// rescanned is how many files a second are read while nginx uses a disk and its index is rebuilt.
const rescanned = 2000

// setPace lets a rescan read as fast as it can until nginx uses the disk.
func (s *store) setPace() {
	s.purger.mutex.RLock()
	limit := rate.Inf
	if s.inUse {
		limit = rescanned
	}
	s.purger.mutex.RUnlock()
	if s.pace.Limit() != limit {
		s.pace.SetLimit(limit)
	}
}

// Watch begins to apply the journal to a store, until the context ends. It does nothing for one that it knows.
func (p *Purger) Watch(ctx context.Context, name string, place Place) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stores[name] != nil {
		return
	}
	s := &store{
		Place: place, purger: p, name: name, reason: "not looked at yet",
		counts: map[int64]purge.Count{}, listing: make(chan struct{}, 1), pace: rate.NewLimiter(rate.Inf, 1),
	}
	p.stores[name] = s
	p.running.Go(func() { s.run(ctx) })
}

// usableInterval is the time between two looks at whether the disk is healthy, and retryInterval that after an error.
const (
	usableInterval = 100 * time.Millisecond
	retryInterval  = time.Second
)

func (s *store) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !s.IsUsable() {
			s.wasCurrent = false
			s.set(func() { s.isRead = false })
			s.purger.sleep(ctx, usableInterval)
			continue
		}
		if err := s.serve(ctx); err != nil && ctx.Err() == nil {
			if s.explain(err.Error()) {
				s.purger.log.Warn("purges wait", "store", s.name, "error", err)
			}
			s.purger.sleep(ctx, retryInterval)
		}
	}
}

// set changes what the mutex guards.
func (s *store) set(change func()) {
	s.purger.mutex.Lock()
	defer s.purger.mutex.Unlock()
	change()
	s.purger.notify()
}

// serve applies the journal while the disk is healthy.
func (s *store) serve(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	state, err := readState(s.State, s.Owner)
	if err != nil {
		return err
	}
	s.kept, s.keptPolicies, s.partly, s.waits = state.Applied, state.Policies, 0, time.Time{}
	s.set(func() {
		s.applied, s.reached = state.Applied, state.Applied
		s.generations, s.wasRead, s.covers = state.generations, true, false
		if state.Policies != s.purger.policyHash { // some objects had other keys
			s.applied = min(s.applied, s.purger.journal.Floor)
		}
	})
	if err := s.check(ctx); err != nil {
		return err
	}
	s.set(func() { s.isRead = true })
	x, folder, headers, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(x, folder)) }()
	x.Clock = s.purger.Clock
	x.Serves = func(generation int64) bool {
		s.purger.mutex.RLock()
		defer s.purger.mutex.RUnlock()
		return s.isMemory() || generation == s.generations.active()
	}
	go func() {
		select {
		case <-x.Failed(): // the keeper may never return
			cancel()
		case <-ctx.Done():
		}
	}()
	k := &index.Keeper{
		Disk: index.Disk{Folder: s.Folder, Index: x, TagHeaders: headers, Stored: s.stored}, Pace: s.pace,
		NoWatches: func(err error) {
			s.purger.log.Warn("folders are polled, and purges take longer: "+
				"raise fs.inotify.max_user_watches and max_user_instances of the node", "store", s.name, "error", err)
		},
	}
	s.set(func() { s.keeper = k })
	defer s.set(func() { s.keeper = nil })
	s.setPace()
	ended := make(chan error, 1)
	go func() { ended <- s.keep(ctx, k) }()
	s.purger.running.Go(func() { s.sweep(ctx, k) })
	s.purger.running.Go(func() { s.removeOrphans(ctx) })
	for {
		again, most, err := s.step(ctx, k)
		if err != nil || ctx.Err() != nil || !s.IsUsable() || !s.has(headers) {
			cancel()
			select {
			case <-x.Failed():
				return index.ErrFailed
			case ended := <-ended:
				return errors.Join(err, ended)
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the index: %w", err)
		case <-again:
		case <-s.purger.Clock.After(most):
		}
	}
}

// keep runs a keeper until the context ends or the disk fails.
func (s *store) keep(ctx context.Context, k *index.Keeper) error {
	for {
		err := k.Run(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller has ended it
		}
		if !errors.Is(err, index.ErrGone) {
			return err
		}
		s.purger.sleep(ctx, retryInterval)
	}
}

// step applies what the journal has. The store looks again when a channel is closed, and after a time at most.
func (s *store) step(ctx context.Context, k *index.Keeper) (again <-chan struct{}, most time.Duration, err error) {
	s.setPace()
	if err := s.renew(); err != nil {
		return nil, 0, err
	}
	p := s.purger
	p.mutex.RLock()
	again, most = p.changed, saveEvery
	head, applied, isKnown, generation := p.journal.Head, s.applied, s.knows(), p.generation
	var tasks []task
	for _, r := range s.since(applied) {
		tasks = append(tasks, task{r, p.patterns(r)})
	}
	saved := p.saved
	p.mutex.RUnlock()
	if !isKnown {
		s.explain("waits for the journal of purges from the operator")
		return again, most, s.hide(0, k.Lost())
	}
	if applied < head {
		if err := s.apply(ctx, k, tasks); errors.Is(err, index.ErrIncomplete) {
			if s.partly < head {
				again, most = nil, usableInterval
			}
			return again, most, s.awaitIndex(k, tasks)
		} else if err != nil {
			return again, most, err
		}
		s.set(func() {
			if p.generation == generation { // otherwise the rules mean more than was applied
				s.applied, s.reached = head, head
			}
		})
	}
	if err := s.show(); err != nil {
		return again, most, err
	}
	s.forget(tasks)
	if more, err := s.change(ctx, k); err != nil {
		return again, most, err
	} else if more {
		again = closed
	}
	return again, most, s.note(head, saved)
}

// closed is a channel for which nobody waits.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// note tells the agent that a disk obeys the whole journal, and notes that on the disk. saved is the head of the copy
// of the journal.
func (s *store) note(head, saved int64) error {
	p := s.purger
	p.mutex.RLock()
	done, policies := s.applied == head, p.policyHash
	p.mutex.RUnlock()
	if done && !s.wasCurrent && p.Current != nil {
		p.Current()
	}
	s.wasCurrent = done
	place := min(head, saved)
	isNew := place > s.kept || place > 0 && policies != s.keptPolicies
	if done && isNew && p.Clock.Since(s.keptAt) >= keepEvery {
		s.keptAt = p.Clock.Now()
		return s.keepState(place)
	}
	return nil
}

// keepEvery is the time between two notes of what a disk has applied, each of which writes all that is in memory to it.
const keepEvery = 5 * time.Second

// knows returns true if the journal is the one that the store has applied until now. The caller holds the mutex.
func (s *store) knows() bool {
	return s.reached == 0 || (s.purger.known && s.reached <= s.purger.journal.Head)
}

// has returns true while objects have their tags in these headers.
func (s *store) has(tagHeaders []string) bool {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	return slices.Equal(s.purger.tagHeaders, tagHeaders)
}

// explain sets the reason why the store is behind, and reports whether it is another one than before.
func (s *store) explain(reason string) bool {
	s.purger.mutex.RLock()
	same := s.reason == reason
	s.purger.mutex.RUnlock()
	if !same {
		s.set(func() { s.reason = reason })
	}
	return !same
}

// since returns the rules that changed after a place. For a memory tier that is older than the journal, everything in
// it is one more rule; a disk has another generation then, see renew. The caller holds the mutex.
func (s *store) since(place int64) []purge.Rule {
	j := s.purger.journal
	rules := j.Since(place)
	if place < j.Floor && s.isMemory() {
		all := purge.Rule{Number: j.Floor, Changed: j.Floor, Until: time.UnixMilli(j.Floor), Name: "older than the journal"}
		all.Everything = true
		rules = append([]purge.Rule{all}, rules...)
	}
	return rules
}

// stored looks at a file that nginx has stored, or that a rescan has found.
func (s *store) stored(e index.Entry) (kept bool, err error) {
	verdict := s.purger.match(e)
	if verdict.Effect == purge.Keep {
		return true, nil
	}
	path := filepath.Join(s.Folder, e.File.Path())
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	soft := verdict.Effect == purge.Expire && !s.isMemory()
	if err := s.invalidate(path, soft); err != nil {
		return false, err
	}
	s.count(verdict.Number, info.Size())
	return soft, nil
}

// count counts a file that was invalidated for a rule.
func (s *store) count(number, size int64) {
	s.purger.mutex.Lock()
	defer s.purger.mutex.Unlock()
	if !s.purger.journal.Has(number) {
		return
	}
	c := s.counts[number]
	s.counts[number] = purge.Count{Files: c.Files + 1, Bytes: c.Bytes + size}
}

func (s *store) isMemory() bool { return s.Indexes == "" }

// invalidate removes a file, or makes it stale.
func (s *store) invalidate(path string, soft bool) error {
	if !soft {
		return cachefile.Remove(path)
	}
	err := cachefile.Expire(path, s.purger.Clock.Now().Add(-time.Second))
	if errors.Is(err, cachefile.ErrVersion) || errors.Is(err, cachefile.ErrDamaged) {
		return nil // nginx does not use it either
	}
	return err
}
