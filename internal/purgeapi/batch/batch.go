// Package batch gathers requests for purges, so that many requests become one CachePurge.
//
// The package is pure, and imports only the API's types and package purge. A new limit on the content of a batch
// belongs in extent.go.
package batch

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Key determines which requests can be gathered into one CachePurge. These are the requests with the same key.
type Key struct {
	// User is the user who sends the requests.
	User                 string
	Namespace, CacheNode string
	Mode                 v1alpha1.PurgeMode
	// ByHost is true for requests that name hosts. If the cache key of the CacheNode contains no host, the operator
	// refuses a purge of hosts. This refusal must not affect requests that name no hosts.
	ByHost bool
}

// Member is a request in a batch. The answer to the request goes to Reply.
type Member[R any] struct {
	Target purge.Target
	Reply  R
}

// Batch is a list of requests that become one CachePurge.
type Batch[R any] struct {
	Key     Key
	Members []Member[R]
}

// Target returns the target of all members together.
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

// Halves divides a batch of at least two members into two halves.
func (b Batch[R]) Halves() (first, second Batch[R]) {
	middle := len(b.Members) / 2
	return Batch[R]{b.Key, b.Members[:middle]}, Batch[R]{b.Key, b.Members[middle:]}
}

// Queue contains the batches that are not sent yet. Each key with requests has a sender. The sender calls Next until no
// batch is left. A queue is not safe for concurrent use.
type Queue[R any] struct {
	// Window is the minimum time for which a batch gathers requests. The batch gathers for a longer time if its sender is
	// still sending other batches.
	Window time.Duration
	lines  map[Key][]*open[R]
}

// open is a batch to which requests can be added, and the total extent of its requests.
type open[R any] struct {
	Batch[R]
	extent extent
	begun  time.Time
}

// Add adds a request to the last batch of its key, or to a new batch if the request does not fit. isFirst is true if
// the key has no sender. The caller must then start one.
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

// Next removes the next batch of a key from the queue, and returns it. If this batch still gathers requests, Next
// returns no batch, and wait is the time that is left. isOver is true if the key has no more batches. The sender must
// then end, and the next request with the key starts a new sender.
func (q *Queue[R]) Next(key Key, now time.Time) (b Batch[R], wait time.Duration, isOver bool) {
	line := q.lines[key]
	if len(line) == 0 {
		delete(q.lines, key)
		return b, 0, true
	}
	// If other batches of the key follow the first batch, the first batch is full and cannot grow any more.
	if left := line[0].begun.Add(q.Window).Sub(now); len(line) == 1 && left > 0 {
		return b, left, false
	}
	q.lines[key] = line[1:]
	return line[0].Batch, 0, false
}
