package purge

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// task is a rule to be applied, and what it is about by each policy.
type task struct {
	purge.Rule
	patterns []purge.Patterns
}

// unlinked is up to how many files of a rule are removed. More of them stay, invalid, until nginx replaces or evicts
// them: to remove a file costs much more than to make it invalid.
const unlinked = 10_000

// apply applies rules to what the store has. The rules are in the tables already, so what is stored meanwhile is looked
// at when it is stored. Files whose names follow from a URL come first, because that needs no index. The error is
// [index.ErrIncomplete] if the index does not know all files yet.
func (a *applier) apply(ctx context.Context, k *index.Keeper, tasks []task) error {
	// The other tasks were applied to all files that the index knew, and to each file that was stored or found since.
	news := slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return t.Changed <= a.partly })
	invalid, err := a.hitKeys(news)
	if err != nil || len(tasks) == 0 {
		return err
	}
	switch err := k.Sync(ctx); {
	case errors.Is(err, index.ErrIncomplete):
		return cmp.Or(a.resolve(ctx, k, news), err)
	case err != nil:
		return err
	case len(news) < len(tasks):
		if invalid, err = a.hitKeys(tasks); err != nil {
			return err
		}
	}
	if err := a.resolve(ctx, k, tasks); err != nil {
		return err
	}
	for _, path := range invalid { // the index does not have those that became invalid before it read them
		if err := cachefile.RemoveUnused(path); err != nil {
			return err
		}
	}
	return nil
}

// hitKeys makes the files invalid whose names follow from the keys of rules, and returns those that nginx does not use.
func (s *store) hitKeys(tasks []task) (invalid []string, err error) {
	generations := s.usedGenerations()
	for _, t := range tasks {
		for _, p := range t.patterns {
			for _, name := range p.Keys {
				key := cachekey.Parse(name)
				for _, key.Generation = range generations {
					path := cachekey.Path(s.Folder, key.String())
					isInvalid, err := s.hit(t, path)
					if err != nil {
						return nil, err
					}
					if isInvalid {
						invalid = append(invalid, path)
					}
				}
			}
		}
	}
	return invalid, nil
}

// resolve applies rules to all files that the index has for them.
func (a *applier) resolve(ctx context.Context, k *index.Keeper, tasks []task) error {
	for _, t := range tasks {
		if err := a.resolveOne(ctx, k, t); err != nil {
			return err
		}
	}
	for _, t := range tasks {
		a.partly = max(a.partly, t.Changed)
	}
	return nil
}

// resolveOne applies a rule: all files become invalid first, as that is fast.
func (s *store) resolveOne(ctx context.Context, k *index.Keeper, t task) error {
	var invalid invalidFiles
	for _, p := range t.patterns {
		for files := range found(k.Index, p) {
			if err := s.hitAll(ctx, k.Index, t, files, &invalid); err != nil {
				return err
			}
		}
	}
	if invalid.count > unlinked { // the files stay, and the index forgets them after all are invalid
		k.Reread(invalid.files...)
		return nil
	}
	for _, f := range invalid.files {
		if err := cachefile.RemoveUnused(filepath.Join(s.Folder, f.Path())); err != nil {
			return err
		}
	}
	return nil
}

// invalidFiles are files that a rule has made invalid: their number, and the first ones. It is safe for concurrent use.
type invalidFiles struct {
	mutex sync.Mutex
	count int
	files []cachekey.File
}

// add adds files.
func (i *invalidFiles) add(files []cachekey.File) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.count += len(files)
	i.files = append(i.files, files[:min(len(files), index.MaxOutdated-len(i.files))]...)
}

// Files are made invalid in batches, several at a time: with one file after another, the disk waits between two reads.
const (
	hitBatch   = 64
	hitBatches = 4
)

// hitAll makes files invalid or stale, see hit. No file may be there twice.
func (s *store) hitAll(
	ctx context.Context, x *index.Index, t task, files iter.Seq2[cachekey.File, error], invalid *invalidFiles,
) (err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hitBatches)
	defer func() { err = cmp.Or(group.Wait(), err) }()
	var batch []cachekey.File
	hit := func() {
		files := batch
		batch = nil
		group.Go(func() error { return s.hitSome(x, t, files, invalid) })
	}
	for f, err := range files {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if batch = append(batch, f); len(batch) == hitBatch {
			hit()
		}
	}
	hit()
	return nil
}

// hitSome makes a batch of files invalid or stale.
func (s *store) hitSome(x *index.Index, t task, files []cachekey.File, invalid *invalidFiles) error {
	hits := files[:0]
	for _, f := range files {
		if s.isSpared(x, f, t) {
			continue
		}
		isInvalid, err := s.hit(t, s.Folder+"/"+f.Path())
		if err != nil {
			return err
		}
		if isInvalid {
			hits = append(hits, f)
		}
	}
	invalid.add(hits)
	return nil
}

// isSpared returns true for a file that arrived after the end of a rule as far as the index knows. A renewal (304)
// makes it still later.
func (s *store) isSpared(x *index.Index, f cachekey.File, t task) bool {
	if t.Until.IsZero() {
		return false
	}
	e, ok, err := x.Get(f)
	return err == nil && ok && e.Received.After(t.End())
}

// found returns the files that an index has for each text of patterns. A file can be there for more than one text.
func found(x *index.Index, p purge.Patterns) iter.Seq[iter.Seq2[cachekey.File, error]] {
	return func(yield func(iter.Seq2[cachekey.File, error]) bool) {
		for _, list := range []struct {
			texts []string
			with  func(string) iter.Seq2[cachekey.File, error]
		}{{p.Keys, x.WithKey}, {p.Prefixes, x.WithPrefix}, {p.Tags, x.WithTag}} {
			for _, text := range list.texts {
				if !yield(list.with(text)) {
					return
				}
			}
		}
	}
}

// hit makes a file invalid or stale, unless it arrived after the end of the rule, and counts it. isInvalid is true for
// a file that nginx does not use, now or since earlier.
func (s *store) hit(t task, path string) (isInvalid bool, err error) {
	soft := t.Soft && !s.isMemory() // of copies in memory, the disk has the object
	now := s.purger.Clock.Now()
	is := func(validUntil, received time.Time) bool {
		isStale := soft && validUntil.Before(now)
		return !isStale && !received.After(t.End())
	}
	var found cachefile.Result
	var size int64
	if soft {
		found, size, err = cachefile.ExpireIf(path, now.Add(-time.Second), is)
	} else {
		found, size, err = cachefile.StampIf(path, is)
	}
	if found == cachefile.Changed {
		s.count(t.Number, size)
	}
	return found == cachefile.Unused || (found == cachefile.Changed && !soft), err
}

// forget forgets the counts of rules that have ended, once the operator has had time to read them.
func (a *applier) forget(tasks []task) {
	now := a.purger.Clock.Now()
	for _, t := range tasks {
		if !t.Until.IsZero() {
			a.ended = append(a.ended, ended{t.Number, now})
		}
	}
	old := 0
	for old < len(a.ended) && now.Sub(a.ended[old].at) > time.Minute {
		old++
	}
	if old == 0 {
		return
	}
	a.purger.mutex.Lock()
	defer a.purger.mutex.Unlock()
	for _, e := range a.ended[:old] {
		delete(a.counts, e.number)
	}
	a.ended = slices.Delete(a.ended, 0, old)
}

// ended is a rule with an end that was applied at a time.
type ended struct {
	number int64
	at     time.Time
}
