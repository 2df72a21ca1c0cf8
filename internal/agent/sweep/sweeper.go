package sweep

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

const (
	// first is the time between the completion of an index and the first sweep. every is the time between two sweeps.
	first = 10 * time.Minute
	every = time.Hour
	// looked is the largest number of index entries that are read in a second. removed is the largest number of files
	// that are removed in a second.
	looked  = 2000
	removed = 100
	// again is the time between two checks whether the disk has other work.
	again = time.Second
)

// Sweeper sweeps one disk.
type Sweeper struct {
	Disk   string
	Keeper *index.Keeper
	// Rules returns the present rules. ok is false while the disk has other work; a sweep waits for the end of this
	// work.
	Rules func() (r Rules, ok bool)
	// Removed is called for each file that was removed.
	Removed func(Reason)
	Log     *slog.Logger
	Clock   clock.Clock
}

// Run sweeps at intervals until the context ends. After a sweep that fails, the next sweep follows at its usual time.
func (s *Sweeper) Run(ctx context.Context) {
	if _, err := s.rules(ctx); err != nil {
		return
	}
	for wait := first; sleep(ctx, s.Clock, wait) == nil; wait = every {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("removing objects that are not needed", "disk", s.Disk, "error", err)
		}
	}
}

// Sweep checks each entry of the index once, and removes the files that the rules do not keep.
func (s *Sweeper) Sweep(ctx context.Context) error {
	looks, removals := rate.NewLimiter(looked, looked/10), rate.NewLimiter(removed, removed/10)
	for folder := range cachekey.Folder(cachekey.Folders) {
		rules, err := s.rules(ctx)
		if err != nil {
			return err
		}
		for f, err := range s.Keeper.Index.InFolder(folder) {
			if err != nil {
				return err
			}
			if err := looks.Wait(ctx); err != nil {
				return err
			}
			e, ok, err := s.Keeper.Index.Get(f)
			if err != nil {
				return err
			}
			if !ok || rules.Reason(s.Disk, e, s.Clock.Now()) == Keep {
				continue
			}
			if err := removals.Wait(ctx); err != nil {
				return err
			}
			if err := s.remove(rules, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file, unless the file shows that its entry in the index is outdated. In this case, the keeper
// reads the file again. nginx may have renewed the file, or a purge of many files may have made it invalid.
func (s *Sweeper) remove(rules Rules, f cachekey.File) error {
	e, ok, err := s.Keeper.Read(f)
	if err != nil {
		return nil //nolint:nilerr // a file that cannot be read stays, and so does its entry in the index
	}
	reason := rules.Reason(s.Disk, e, s.Clock.Now())
	if !ok || reason == Keep {
		s.Keeper.Reread(f)
		return nil
	}
	if err := cachefile.Remove(filepath.Join(s.Keeper.Folder, f.Path())); err != nil {
		return err
	}
	s.Removed(reason)
	return nil
}

// rules waits until the disk has no other work, and returns the present rules.
func (s *Sweeper) rules(ctx context.Context) (Rules, error) {
	for {
		if rules, ok := s.Rules(); ok {
			return rules, ctx.Err()
		}
		if err := sleep(ctx, s.Clock, again); err != nil {
			return Rules{}, err
		}
	}
}

func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.After(d):
		return nil
	}
}
