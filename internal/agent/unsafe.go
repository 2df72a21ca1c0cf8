package agent

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	journal "github.com/cachenode/cachenode-operator/internal/purge"
)

// unsafeURLs stores the last URLs at which clients have changed something at the origin. The agent reports them to
// the operator, which makes all pods mark the cached objects of these URLs as stale. It is safe for concurrent use.
type unsafeURLs struct {
	mutex sync.Mutex
	list  []agentapi.UnsafeURL
	last  int64
}

// add appends a URL, and removes an earlier entry for the same URL. If there are too many entries, it removes the
// oldest ones.
func (u *unsafeURLs) add(url string, now time.Time) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.last = max(u.last+1, now.UnixMilli()) // so that the number also grows after a restart
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

// recent is the time for which the agent reports a URL. The operator reads the reports of an agent every few seconds.
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

// Unsafe makes the objects of a URL stale in this pod, and reports the URL to the operator. It is called for a request
// that has changed something at the origin (nginxlog.Handler).
func (a *Agent) Unsafe(url string) {
	if isPlain(url) {
		a.unsafe.add(url, a.clock.Now())
		a.purger.MakeStale(url)
	}
}

// isPlain returns true if a purge can name the URL, and if the URL has the same path as the request. The paths can
// differ, because a Host header can contain a question mark: the URL would then name another page.
func isPlain(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return !strings.Contains(host, "?") && (journal.Target{URLs: []string{url}}).CheckForm() == nil
}
