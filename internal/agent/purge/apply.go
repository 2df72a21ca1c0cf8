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

// task is a rule that must be applied, with its patterns under each cache policy.
type task struct {
	purge.Rule
	patterns []purge.Patterns
}

// unlinked is the largest number of invalid files that are removed for one rule. If a rule makes more files invalid,
// all these files stay until nginx replaces or evicts them: the removal of a file costs much more than making it
// invalid.
const unlinked = 10_000

// apply applies rules to the files in the store. A file that nginx stores during apply is checked when it is stored,
// because the rulebook's tables already contain the rules. Files whose names follow from a URL come first, because they
// can be found without the index. The error is [index.ErrIncomplete] if the index does not contain all files yet.
func (a *applier) apply(ctx context.Context, k *index.Keeper, tasks []task) error {
	// news contains the tasks that were not yet applied to the files in the index. The other tasks were already applied
	// to all files that the index contained, and to each file that was stored or found since.
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
	for _, path := range invalid { // the index lacks files that became invalid before it read them
		if err := cachefile.RemoveUnused(path); err != nil {
			return err
		}
	}
	return nil
}

// hitKeys computes names of files from the keys of rules, and makes these files invalid or stale. It returns the paths
// of the files that nginx can no longer use: files that are now invalid, and incomplete files.
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

// resolve applies rules to all files that the index returns for them.
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

// resolveOne applies a rule. It first makes all files invalid, because this is fast, and only then removes files.
func (s *store) resolveOne(ctx context.Context, k *index.Keeper, t task) error {
	var invalid invalidFiles
	for _, p := range t.patterns {
		for files := range found(k.Index, p) {
			if err := s.hitAll(ctx, k.Index, t, files, &invalid); err != nil {
				return err
			}
		}
	}
	if invalid.count > unlinked { // the files stay; the keeper reads them again, and the index forgets them
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

// invalidFiles records the files that a rule has made invalid: their number, and a list of the first of these files. It
// is safe for concurrent use.
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

// Files are made invalid in batches, and several batches run at a time. With one file after another, the disk would
// be idle between two reads.
const (
	hitBatch   = 64
	hitBatches = 4
)

// hitAll makes files invalid or stale, see hit. files must not contain the same file twice.
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

// isSpared returns true for a file that, according to the index, arrived after the end of a rule. The time of arrival
// in the index may be outdated. An outdated time is always too early, because a renewal (304) only moves the time
// forward. In doubt, isSpared therefore returns false, and hit reads the correct time from the file.
func (s *store) isSpared(x *index.Index, f cachekey.File, t task) bool {
	if t.Until.IsZero() {
		return false
	}
	e, ok, err := x.Get(f)
	return err == nil && ok && e.Received.After(t.End())
}

// found returns, for each text in the patterns, the files that the index contains for the text. A file can be
// returned for more than one text.
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

// hit makes a file invalid or stale and counts it, unless its response arrived after the end of the rule. isInvalid
// is true for a file that nginx does not use, because of this call or an earlier one.
func (s *store) hit(t task, path string) (isInvalid bool, err error) {
	soft := t.Soft && !s.isMemory() // copies in memory are removed; the disk keeps the object
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

// forget removes the counts of rules that have ended, once the operator has had time to read the counts.
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

// ended is a rule with an end, and the time at which the rule was applied.
type ended struct {
	number int64
	at     time.Time
}
