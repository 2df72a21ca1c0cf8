package agent

import (
	"slices"
	"strings"
	"sync"
	"time"

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

// recent is how long a URL is reported. The operator reads the reports of an agent every few seconds.
const recent = time.Minute

// since returns the URLs of the last minute, the newest one last.
func (u *unsafeURLs) since(now time.Time) []agentapi.UnsafeURL {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.list = slices.DeleteFunc(u.list, func(known agentapi.UnsafeURL) bool {
		return known.Number < now.Add(-recent).UnixMilli()
	})
	return slices.Clone(u.list)
}

// Unsafe implements nginxlog.Handler.
func (a *Agent) Unsafe(url string) {
	if isPlain(url) {
		a.unsafe.add(url, a.clock.Now())
		a.purger.MakeStale(url)
	}
}

// isPlain returns true for a URL that a purge can name, and whose path is that of the request. A Host header can have a
// question mark, after which the path would be another page's.
func isPlain(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return !strings.Contains(host, "?") && (journal.Target{URLs: []string{url}}).CheckForm() == nil
}
