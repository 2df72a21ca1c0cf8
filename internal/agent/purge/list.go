package purge

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// more is the text that a listing shows in place of tags that are not indexed.
const more = "..."

// List lists the objects on the disks and in the memory tier that their indexes contain. Each disk serves one caller
// at a time. Objects that a disk has not returned when the context ends are missing from the answer. The error means
// that the target does not fit the CacheNode's key.
func (p *Purger) List(ctx context.Context, q objects.Query) (answer objects.Answer, err error) {
	wanted, stores, err := p.wanted(q.Target)
	if err != nil {
		return answer, err
	}
	answer.Stores = make([]objects.Store, len(stores))
	var listing sync.WaitGroup
	for i, o := range stores {
		listing.Go(func() { answer.Stores[i] = o.list(ctx, q, wanted) })
	}
	listing.Wait()
	return answer, nil
}

// opened is a store that nginx uses, with its index. index is nil if the index is not open. isComplete is true if the
// index contains all files of the store.
type opened struct {
	*store
	index      *index.Index
	isComplete bool
}

// wanted returns the patterns of a target for all policies, and the stores that nginx uses.
func (p *Purger) wanted(target purge.Target) (wanted purge.Patterns, stores []opened, err error) {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(p.stores)) {
		o := opened{store: p.stores[name]}
		if !o.matters() {
			continue
		}
		if o.keeper != nil {
			o.index, o.isComplete = o.keeper.Index, o.keeper.Complete()
		}
		stores = append(stores, o)
	}
	for _, policy := range p.book.policies {
		if err := target.Check(policy); err != nil {
			return wanted, nil, err
		}
	}
	return purge.Union(p.book.expand(target, "")), stores, nil
}

// list lists the objects of one store. It does not wait for a disk that hangs.
func (o opened) list(ctx context.Context, q objects.Query, wanted purge.Patterns) objects.Store {
	none := objects.Store{Name: o.name, Problem: "its index is not open yet"}
	if o.index == nil {
		return none
	}
	none.Problem = "it has not answered in time, or answers somebody else"
	select {
	case o.listing <- struct{}{}:
	case <-ctx.Done():
		return none
	}
	done := make(chan objects.Store, 1)
	go func() {
		defer func() { <-o.listing }()
		done <- o.collect(ctx, q, wanted)
	}()
	select {
	case s := <-done:
		return s
	case <-ctx.Done():
		return none
	}
}

func (o opened) collect(ctx context.Context, q objects.Query, wanted purge.Patterns) objects.Store {
	l := objects.NewListing(q, o.name)
	for object, err := range selected(o.index, wanted) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return l.Store(err.Error())
		}
		if i := slices.Index(object.Tags, index.TagsCut); i >= 0 {
			object.Tags = append(slices.Delete(slices.Clone(object.Tags), i, i+1), more)
		}
		l.Add(object)
	}
	if !o.isComplete {
		return l.Store("its index is being rebuilt")
	}
	return l.Store("")
}
