// Package batch gathers requests for purges, so that many of them become one CachePurge.
//
// It is pure, and imports the API's types and package purge only. Another rule for what may be in one batch goes into
// its limits.
package batch

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Key says which requests can be gathered: those with the same key.
type Key struct {
	// User is who sends them.
	User                 string
	Namespace, CacheNode string
	Mode                 v1alpha1.PurgeMode
	// ByHost is true for requests that name hosts. The operator refuses hosts if the key of the CacheNode has none, and
	// that must not spoil the requests that name none.
	ByHost bool
}

// Member is a request in a batch. Reply is where its answer goes.
type Member[R any] struct {
	Target purge.Target
	Reply  R
}

// Batch is requests that become one CachePurge.
type Batch[R any] struct {
	Key     Key
	Members []Member[R]
}

// Target returns what all members purge together.
func (b Batch[R]) Target() (t purge.Target) {
	for _, m := range b.Members {
		t.URLs = append(t.URLs, m.Target.URLs...)
		t.Prefixes = append(t.Prefixes, m.Target.Prefixes...)
		t.Hosts = append(t.Hosts, m.Target.Hosts...)
		t.Tags = append(t.Tags, m.Target.Tags...)
		t.Everything = t.Everything || m.Target.Everything
	}
	return t
}

// Halves divides a batch of two members or more.
func (b Batch[R]) Halves() (first, second Batch[R]) {
	middle := len(b.Members) / 2
	return Batch[R]{b.Key, b.Members[:middle]}, Batch[R]{b.Key, b.Members[middle:]}
}

// Queue has the batches that are not sent yet. Each key has a sender, which calls Next until it says that nothing is
// left. A queue is not safe for concurrent use.
type Queue[R any] struct {
	// Window is how long a batch gathers at least. It gathers longer while its sender sends others.
	Window time.Duration
	lines  map[Key][]*open[R]
}

// open is a batch to which requests are added, with how much they are together.
type open[R any] struct {
	Batch[R]
	extent extent
	begun  time.Time
}

// Add adds a request to the last batch of its key, or begins another one if it does not fit. isFirst is true if the key
// has no sender: the caller starts one.
func (q *Queue[R]) Add(key Key, m Member[R], now time.Time) (isFirst bool) {
	if q.lines == nil {
		q.lines = map[Key][]*open[R]{}
	}
	line, isThere := q.lines[key]
	more := extentOf(m.Target)
	if n := len(line); n == 0 || !line[n-1].extent.fits(more) {
		line = append(line, &open[R]{Batch: Batch[R]{Key: key}, begun: now})
	}
	last := line[len(line)-1]
	last.Members = append(last.Members, m)
	last.extent = last.extent.plus(more)
	q.lines[key] = line
	return !isThere
}

// Next takes the next batch of a key. If it gathers for a while yet, the result is that time, and no batch. isOver is
// true if nothing is left: the sender ends, and the next request of the key starts another one.
func (q *Queue[R]) Next(key Key, now time.Time) (b Batch[R], wait time.Duration, isOver bool) {
	line := q.lines[key]
	if len(line) == 0 {
		delete(q.lines, key)
		return b, 0, true
	}
	// What a batch did not fit into cannot grow any more.
	if left := line[0].begun.Add(q.Window).Sub(now); len(line) == 1 && left > 0 {
		return b, left, false
	}
	q.lines[key] = line[1:]
	return line[0].Batch, 0, false
}
