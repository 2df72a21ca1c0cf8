// Package purge carries out purges on the disks of a pod and in its memory tier.
//
// It may import the API's types, purge, cachekey, objects and the packages of the agent that work with files: index,
// sweep, cachefile, crash, reload. Code about the meaning of rules goes into the rulebook, which touches no file.
// Code that works on a store goes into the applier. State of a store that other goroutines may read goes into store.
package purge

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// blockCache is the memory that the indexes share, in bytes.
const blockCache = 8 << 20

// Purger holds the journal of purges, and the stores that obey the journal. It is safe for concurrent use.
type Purger struct {
	// Current is called when a store obeys the whole journal for the first time or again, and when the generation of a
	// disk changes. Set it before Watch.
	Current func()
	// Clock is the clock of the purger. New sets the real clock. To use another clock, set it before Watch.
	Clock clock.Clock
	// Removed is called for each file that was removed from a store for another reason than a purge. Set it before Watch.
	Removed func(store string, reason sweep.Reason)
	// Processes returns the start times of nginx's processes, see [sweep.Orphans]. Set it before Watch; nil removes no
	// temporary files.
	Processes func() (p reload.Processes, ok bool)

	log *slog.Logger
	// copy is the path of the file that keeps the journal for the next agent of this pod.
	copy   string
	blocks *index.Cache

	mutex sync.RWMutex
	book  rulebook
	// known is true once the journal was read from a file or received from the operator. received is true once the
	// journal was received from the operator. saved is the head of the journal in the copy.
	known, received bool
	saved           int64
	// hides is a setting (spec.purge.unindexed). If it is true, the objects of a disk are hidden while the index of that
	// disk cannot answer a purge.
	hides bool
	// begun is true once SetInUse was called. Before that, the purger does not know which disks nginx uses.
	begun bool
	// rules are the rules of sweeps.
	rules      sweep.Rules
	tagHeaders []string
	// generation counts the changes of the policies and of the tag headers. After such a change, a rule may match other
	// objects than before.
	generation int
	stores     map[string]*store
	// changes contains the newest URLs that must be made stale. changesSeen counts all such URLs, including those that are
	// no longer in changes. again contains the URLs that must be made stale in the memory tier a second time.
	changes     []change
	changesSeen int64
	again       []again
	running     sync.WaitGroup // counts the goroutines of the stores
	// changed is closed when anything changes that a store or a caller waits for.
	changed chan struct{}
}

// New returns a purger that keeps a copy of the journal in a file. It reads the copy of an earlier agent.
func New(log *slog.Logger, copyFile string) *Purger {
	p := &Purger{
		Clock: clock.RealClock{},
		log:   log, copy: copyFile, blocks: index.NewCache(blockCache), stores: map[string]*store{},
		book: newRulebook(log), changed: make(chan struct{}),
	}
	if text, err := os.ReadFile(copyFile); err == nil { //nolint:gosec // the path is ours
		j, err := purge.Decode(text)
		if err != nil {
			p.log.Warn("reading purges", "error", err)
			return p
		}
		p.Load(j)
		p.saved = p.book.journal.Head
	}
	return p
}

// Load takes over the rules of a journal, such as the mounted one, if this journal is newer than the purger's own
// journal.
func (p *Purger) Load(j purge.Journal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.known = true; j.Head > p.book.journal.Head {
		p.merge(j.Floor, j.Head, j.Rules)
	}
}

// Configure sets the policies by which nginx may have stored objects, and the headers that contain the tags of
// objects.
func (p *Purger) Configure(tagHeaders []string, policies ...v1alpha1.Cache) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if changed := p.book.configure(policies); !changed && slices.Equal(p.tagHeaders, tagHeaders) {
		return
	}
	p.tagHeaders = tagHeaders
	p.generation++
	for _, s := range p.stores { // some objects have other keys now
		s.applied = min(s.applied, p.book.journal.Floor)
	}
	p.notify()
}

// merge takes over changes of the journal. The caller holds the mutex.
func (p *Purger) merge(floor, head int64, rules []purge.Rule) {
	if p.book.merge(floor, head, rules) {
		for _, s := range p.stores {
			maps.DeleteFunc(s.counts, func(number int64, _ purge.Count) bool { return !p.book.journal.Has(number) })
		}
	}
	p.notify()
}

// notify wakes all goroutines that wait for a change. The caller holds the mutex.
func (p *Purger) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// match returns the verdict of the rules on an object.
func (p *Purger) match(e index.Entry) purge.Verdict {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.book.match(e)
}

func (p *Purger) removed(store string, reason sweep.Reason) {
	if p.Removed != nil {
		p.Removed(store, reason)
	}
}

// ErrGap is the error of [Purger.Receive] if the pod lacks rules that come before the received ones.
var ErrGap = errors.New("some purges before these are not known")

// Receive takes over a part of the journal from the operator. If it returns [ErrGap], it has taken over no rule.
func (p *Purger) Receive(news purge.Update) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, url := range news.Stale {
		p.makeStale(url)
	}
	if news.After > p.book.journal.Head || (news.After > 0 && !p.known) {
		return ErrGap
	}
	p.known, p.received = true, true
	p.merge(news.Floor, news.Head, news.Rules)
	return nil
}

// IsReceived returns true once the operator has sent the journal to this agent.
func (p *Purger) IsReceived() bool {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.received
}

// HasUpdate returns true once the operator has sent the journal to this agent. It also returns true while the agent
// knows no journal, neither from a file nor from the operator.
func (p *Purger) HasUpdate() bool {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.received || !p.known
}

// Wait waits until the pod obeys the journal up to a place, or the context ends.
func (p *Purger) Wait(ctx context.Context, place int64) {
	for {
		p.mutex.RLock()
		changed, applied := p.changed, p.appliedByAll()
		p.mutex.RUnlock()
		if applied >= place {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// maxCounted is the number of the last rules in which Done looks for the first rule without an end. Every answer
// contains the counts of this rule and of all later rules. An answer contains the counts of an earlier rule only if the
// rule has changed after the place in the request.
const maxCounted = 1000

// Done returns what the stores have applied so far. It includes the counts of the rules that have changed after a
// place. It also includes the counts of the first rule without an end and of all later rules, see maxCounted.
func (p *Purger) Done(after int64) purge.Done {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	done := purge.Done{Head: p.book.journal.Head, Applied: p.appliedByAll()}
	rules := p.book.journal.Since(min(after, p.book.journal.FirstOpen(maxCounted)-1))
	for _, name := range slices.Sorted(maps.Keys(p.stores)) {
		s := p.stores[name]
		store := purge.StoreDone{Name: name, Applied: s.place(), Counts: map[int64]purge.Count{}}
		for _, r := range rules {
			if count, known := s.counts[r.Number]; known {
				store.Counts[r.Number] = count
			}
		}
		switch {
		case !p.begun:
			store.Reason = "the agent is starting"
		case s.matters() && s.isBehind():
			store.Reason = "nginx has not taken the new configuration yet"
		case s.matters() && s.applied < p.book.journal.Head:
			store.Reason = s.reason
		}
		done.Stores = append(done.Stores, store)
	}
	return done
}

// appliedByAll returns the place up to which the journal is applied to all stores that nginx uses, or may use at any
// moment. The caller holds the mutex.
func (p *Purger) appliedByAll() int64 {
	if !p.begun {
		return 0
	}
	applied := p.book.journal.Head
	for _, s := range p.stores {
		if s.matters() {
			applied = min(applied, s.place())
		}
	}
	return applied
}

// IsCurrent returns true for a disk that nginx may use: the disk is in use already, it obeys the whole journal, or
// its objects are hidden. IsCurrent returns false as long as the disk's generation is not known.
func (p *Purger) IsCurrent(disk string) bool {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	s := p.stores[disk]
	return s == nil || s.wasRead && !s.isOlder() && (s.inUse ||
		s.isRead && (s.covers || s.knows() && s.applied >= p.book.journal.Head))
}

// SetInUse sets which disks nginx uses, and with which generations of their keys. Before the first call, no purge
// counts as applied.
func (p *Purger) SetInUse(disks []string, generations map[string]int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.begun = true
	for name, s := range p.stores {
		s.inUse = name == purge.MemoryStore || slices.Contains(disks, name)
		s.taken = generations[name]
	}
	p.notify()
}

// Ended waits until the goroutines of all stores have ended. Call it after the end of Watch's context. A goroutine that
// waits for a hanging disk does not end.
func (p *Purger) Ended() { p.running.Wait() }

// saveEvery is the time between two saves of the journal, and the longest time between two steps of an applier.
const saveEvery = time.Second

// Run keeps the copy of the journal up to date until the context ends. It also makes URLs stale in the memory tier a
// second time when this is due.
func (p *Purger) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p.lookAgain()
		p.mutex.RLock()
		journal, saved := p.book.journal, p.saved
		journal.Rules = slices.Clone(journal.Rules)
		p.mutex.RUnlock()
		if journal.Head != saved {
			text, err := journal.Encode()
			if err == nil {
				err = replace(p.copy, text)
			}
			if err != nil {
				p.log.Warn("saving the purges", "error", err)
			} else {
				p.mutex.Lock()
				p.saved = journal.Head
				p.mutex.Unlock()
			}
		}
		p.sleep(ctx, saveEvery)
	}
}

func (p *Purger) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-p.Clock.After(d):
	}
}
