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

// Place defines the paths and the owner of a store.
type Place struct {
	// Folder is the folder of nginx's cache files (proxy_cache_path).
	Folder string
	// State is the file that records up to which place in the journal the store has applied the rules.
	State string
	// Owner is the CacheNode to which the journal belongs, as NAMESPACE/NAME.
	Owner string
	// Checked is the file with the ID of the boot after which the store was last checked for files that a crash has cut
	// short. It is "" for a store whose index is in memory.
	Checked string
	// Refresh is the folder of another nginx cache on the disk, whose objects are not purged; "" if there is none.
	Refresh string
	// Indexes is the folder for the index; "" keeps it in memory.
	Indexes string
	// IsUsable returns true while the disk is healthy. It must not block.
	IsUsable func() bool
}

// store is a disk or the memory tier. It contains the state that several goroutines use, and that the purger's mutex
// guards.
type store struct {
	Place
	purger *Purger
	name   string

	// applied is the last place in the journal up to which the store has applied the rules under the present cache
	// policies. It is read from the file State when the disk becomes healthy. isRead is true while applied is valid: the
	// file was read, and the search for files that a crash has cut short has ended. reached is the last place up to which
	// the store has applied the rules under any policies. inUse is true if nginx uses the store.
	applied, reached int64
	isRead, inUse    bool
	// wasRead is true once the file State was read. generations are the generations in that file. covers is true if hide
	// has begun the present Cover since the file was read. taken is the generation that nginx uses.
	wasRead, covers bool
	generations     generations
	taken           int64
	// reason is the reason why applied is behind the journal.
	reason string
	counts map[int64]purge.Count
	// keeper keeps the index up to date while the index is open; nil otherwise.
	keeper *index.Keeper
	// listing is a semaphore for one goroutine, the one that lists or looks up the store's objects.
	listing chan struct{}
}

// applier applies the journal to a store. Only its own goroutine uses it.
type applier struct {
	*store
	// pace limits how fast a rescan reads files.
	pace *rate.Limiter
	// changesSeen counts the URLs that the applier has taken to make them stale.
	changesSeen int64
	// ended contains the rules whose counts will be removed.
	ended []ended
	// waits is the time at which the wait for the index or the journal began; zero without a wait. hidden is the time at
	// which the last Cover began. covered was the head of the journal at that time, and lost is the number of times that
	// the index had lost events by then. partly is the place up to which the rules are applied to all files in the index
	// while the index is not complete.
	waits, hidden         time.Time
	covered, lost, partly int64
	// kept and keptPolicies are the place and the policies in the file State. keptAt is the time at which the method
	// note last wrote them. wasCurrent is true if the store obeyed the whole journal at the last check.
	kept         int64
	keptPolicies string
	keptAt       time.Time
	wasCurrent   bool
}

// matters returns true if nginx uses the store, or may use it at any moment.
func (s *store) matters() bool { return s.inUse || s.IsUsable() }

// rescanned is the largest number of files per second that a rescan reads while nginx uses the disk.
const rescanned = 2000

// setPace lets a rescan read as fast as it can until nginx uses the disk.
func (a *applier) setPace() {
	a.purger.mutex.RLock()
	limit := rate.Inf
	if a.inUse {
		limit = rescanned
	}
	a.purger.mutex.RUnlock()
	if a.pace.Limit() != limit {
		a.pace.SetLimit(limit)
	}
}

// Watch applies the journal to a store in the background, until the context ends. It does nothing for a store that the
// purger already knows.
func (p *Purger) Watch(ctx context.Context, name string, place Place) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stores[name] != nil {
		return
	}
	s := &store{
		Place: place, purger: p, name: name, reason: "not looked at yet",
		counts: map[int64]purge.Count{}, listing: make(chan struct{}, 1),
	}
	p.stores[name] = s
	a := &applier{store: s, pace: rate.NewLimiter(rate.Inf, 1)}
	p.running.Go(func() { a.run(ctx) })
}

// usableInterval is the time between two checks whether the disk is healthy. retryInterval is the time before the
// next attempt after an error.
const (
	usableInterval = 100 * time.Millisecond
	retryInterval  = time.Second
)

func (a *applier) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !a.IsUsable() {
			a.wasCurrent = false
			a.set(func() { a.isRead = false })
			a.purger.sleep(ctx, usableInterval)
			continue
		}
		if err := a.serve(ctx); err != nil && ctx.Err() == nil {
			if a.explain(err.Error()) {
				a.purger.log.Warn("purges wait", "store", a.name, "error", err)
			}
			a.purger.sleep(ctx, retryInterval)
		}
	}
}

// set changes fields that the mutex guards, and wakes all goroutines that wait for a change.
func (s *store) set(change func()) {
	s.purger.mutex.Lock()
	defer s.purger.mutex.Unlock()
	change()
	s.purger.notify()
}

// serve applies the journal while the disk is healthy.
func (a *applier) serve(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	state, err := readState(a.State, a.Owner)
	if err != nil {
		return err
	}
	a.kept, a.keptPolicies, a.partly, a.waits = state.Applied, state.Policies, 0, time.Time{}
	a.set(func() {
		a.applied, a.reached = state.Applied, state.Applied
		a.generations, a.wasRead, a.covers = state.generations, true, false
		if state.Policies != a.purger.book.hash { // some objects had other keys
			a.applied = min(a.applied, a.purger.book.journal.Floor)
		}
	})
	if err := a.check(ctx); err != nil {
		return err
	}
	a.set(func() { a.isRead = true })
	x, folder, headers, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close(x, folder)) }()
	x.Clock = a.purger.Clock
	x.Serves = func(generation int64) bool {
		a.purger.mutex.RLock()
		defer a.purger.mutex.RUnlock()
		return a.isMemory() || generation == a.generations.active()
	}
	go func() {
		select {
		case <-x.Failed(): // the keeper may never return
			cancel()
		case <-ctx.Done():
		}
	}()
	k := &index.Keeper{
		Disk: index.Disk{Folder: a.Folder, Index: x, TagHeaders: headers, Stored: a.stored}, Pace: a.pace,
		NoWatches: func(err error) {
			a.purger.log.Warn("folders are polled, and purges take longer: "+
				"raise fs.inotify.max_user_watches and max_user_instances of the node", "store", a.name, "error", err)
		},
	}
	a.set(func() { a.keeper = k })
	defer a.set(func() { a.keeper = nil })
	a.setPace()
	ended := make(chan error, 1)
	go func() { ended <- a.keep(ctx, k) }()
	a.purger.running.Go(func() { a.sweep(ctx, k) })
	a.purger.running.Go(func() { a.removeOrphans(ctx) })
	for {
		again, most, err := a.step(ctx, k)
		if err != nil || ctx.Err() != nil || !a.IsUsable() || !a.has(headers) {
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
		case <-a.purger.Clock.After(most):
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

// step applies the rules of the journal that the store does not obey yet. The channel again is closed when the next
// step is due. If it is not closed earlier, the next step follows after the duration most.
func (a *applier) step(ctx context.Context, k *index.Keeper) (again <-chan struct{}, most time.Duration, err error) {
	a.setPace()
	if err := a.renew(); err != nil {
		return nil, 0, err
	}
	p := a.purger
	p.mutex.RLock()
	again, most = p.changed, saveEvery
	head, applied, isKnown, generation := p.book.journal.Head, a.applied, a.knows(), p.generation
	tasks, saved := a.since(applied), p.saved
	p.mutex.RUnlock()
	if !isKnown {
		a.explain("waits for the journal of purges from the operator")
		return again, most, a.hide(0, k.Lost())
	}
	if applied < head {
		if err := a.apply(ctx, k, tasks); errors.Is(err, index.ErrIncomplete) {
			if a.partly < head {
				again, most = nil, usableInterval
			}
			return again, most, a.awaitIndex(k, tasks)
		} else if err != nil {
			return again, most, err
		}
		a.set(func() {
			if p.generation == generation { // otherwise the rules now match more than step has applied
				a.applied, a.reached = head, head
			}
		})
	}
	if err := a.show(); err != nil {
		return again, most, err
	}
	a.forget(tasks)
	if more, err := a.change(ctx, k); err != nil {
		return again, most, err
	} else if more {
		again = closed
	}
	return again, most, a.note(head, saved)
}

// closed is a closed channel: a receive from this channel returns at once.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// note tells the agent when a store begins to obey the whole journal. It also writes to the file State up to which
// place the store obeys the journal. saved is the head of the journal in the purger's copy.
func (a *applier) note(head, saved int64) error {
	p := a.purger
	p.mutex.RLock()
	done, policies := a.applied == head, p.book.hash
	p.mutex.RUnlock()
	if done && !a.wasCurrent && p.Current != nil {
		p.Current()
	}
	a.wasCurrent = done
	place := min(head, saved)
	isNew := place > a.kept || place > 0 && policies != a.keptPolicies
	if done && isNew && p.Clock.Since(a.keptAt) >= keepEvery {
		a.keptAt = p.Clock.Now()
		return a.keepState(place)
	}
	return nil
}

// keepEvery is the shortest time between two writes of the file State by note. Before each such write, note syncs the
// disk.
const keepEvery = 5 * time.Second

// knows returns true if the pod's journal contains all rules that the store has applied so far. The caller holds the
// mutex.
func (s *store) knows() bool {
	return s.reached == 0 || (s.purger.known && s.reached <= s.purger.book.journal.Head)
}

// has returns true if the given headers are still the configured headers for tags.
func (s *store) has(tagHeaders []string) bool {
	s.purger.mutex.RLock()
	defer s.purger.mutex.RUnlock()
	return slices.Equal(s.purger.tagHeaders, tagHeaders)
}

// explain sets the reason why the store is behind, and reports whether the reason has changed.
func (s *store) explain(reason string) bool {
	s.purger.mutex.RLock()
	same := s.reason == reason
	s.purger.mutex.RUnlock()
	if !same {
		s.set(func() { s.reason = reason })
	}
	return !same
}

// since returns the rules that changed after a place. If the memory tier has missed rules that the journal no longer
// contains, since adds a rule that matches everything in the memory tier. For a disk that has missed such rules,
// renew sets a new generation instead. The caller holds the mutex.
func (s *store) since(place int64) (tasks []task) {
	book := &s.purger.book
	if floor := book.journal.Floor; place < floor && s.isMemory() {
		all := purge.Rule{Number: floor, Changed: floor, Until: time.UnixMilli(floor), Name: "older than the journal"}
		all.Everything = true
		tasks = append(tasks, task{all, book.expand(all.Target, all.Name)})
	}
	for _, r := range book.journal.Since(place) {
		tasks = append(tasks, book.task(r))
	}
	return tasks
}

// stored applies the rules to a file that nginx has stored, or that a rescan has found.
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
	if !s.purger.book.journal.Has(number) {
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
