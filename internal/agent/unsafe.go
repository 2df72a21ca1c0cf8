package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	journal "github.com/cachenode/cachenode-operator/internal/purge"
)

// unsafeURLs are the last URLs at which clients have changed something. They are reported to the operator, which has
// all pods make stale what they have of them. It is safe for concurrent use.
type unsafeURLs struct {
	mutex sync.Mutex
	list  []agentapi.UnsafeURL
	last  int64
}

// add adds a URL, in place of the same one if that is there. The oldest ones go when there are too many.
func (u *unsafeURLs) add(url string, now time.Time) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.last = max(u.last+1, now.UnixMilli()) // so that it grows over restarts
	u.list = slices.DeleteFunc(u.list, func(known agentapi.UnsafeURL) bool { return known.URL == url })
	u.list = append(u.list, agentapi.UnsafeURL{Number: u.last, URL: url})
	bytes := 0
	for i, known := range slices.Backward(u.list) {
		if bytes += len(known.URL); bytes > agentapi.MaxUnsafeBytes || len(u.list)-i > agentapi.MaxUnsafe {
			u.list = slices.Clone(u.list[i+1:])
			break
		}
	}
}

// all are the URLs, the newest one last.
func (u *unsafeURLs) all() []agentapi.UnsafeURL {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return slices.Clone(u.list)
}

// Unsafe implements nginxlog.Handler.
func (a *Agent) Unsafe(url string) {
	target := journal.Target{URLs: []string{url}}
	if target.Check(v1alpha1.CachePolicy{}) != nil { // longer than a purge can name it, for instance
		return
	}
	a.unsafe.add(url, time.Now())
	a.purger.MakeStale(url)
}
