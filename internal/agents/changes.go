package agents

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// changes contains the URLs of a CacheNode at which clients have changed something at the origin. Each URL is listed
// once, the newest last. Each agent gets the URLs that were added after the last URL that it got.
type changes struct {
	urls []change
	last int64
}

// change is a URL with its number. Each later URL has a higher number.
type change struct {
	number int64
	url    string
}

// add adds URLs. If there are then more URLs than an update may contain, add removes the oldest URLs.
func (c *changes) add(urls []string) {
	fresh := map[string]bool{}
	for _, url := range urls {
		fresh[url] = true
	}
	c.urls = slices.DeleteFunc(c.urls, func(known change) bool { return fresh[known.url] })
	for _, url := range urls {
		if fresh[url] {
			c.last++
			c.urls = append(c.urls, change{c.last, url})
		}
		fresh[url] = false
	}
	c.urls = slices.Clone(c.urls[max(len(c.urls)-purge.MaxItems, 0):])
}

// since returns the URLs with a higher number than the given one.
func (c *changes) since(number int64) (urls []string) {
	for _, known := range c.urls {
		if known.number > number {
			urls = append(urls, known.url)
		}
	}
	return urls
}

// changesOf returns the changes of a CacheNode. The caller holds the mutex.
func (t *Tracker) changesOf(cacheNode types.NamespacedName) *changes {
	if c := t.changes[cacheNode]; c != nil {
		return c
	}
	return &changes{}
}

// takeUnsafe adds the new URLs of an agent's report to the list of changed URLs of the CacheNode. All agents of the
// CacheNode get this list. A rate limit for each agent bounds how often takeUnsafe adds URLs. The agent's later reports
// contain the URLs that were not added. takeUnsafe omits texts that are not URLs. The caller holds the mutex.
func (t *Tracker) takeUnsafe(known *agent, list []agentapi.UnsafeURL) {
	urls, last := newlyUnsafe(list, known.unsafe)
	if t.onPurges == nil || len(urls) == 0 || !known.urls.AllowN(t.clock.Now(), 1) {
		return // without a controller for purges, nobody would send the URLs
	}
	known.unsafe = last
	urls = slices.DeleteFunc(urls, func(url string) bool {
		return (purge.Target{URLs: []string{url}}).CheckForm() != nil
	})
	if len(urls) > 0 {
		c := t.changesOf(known.cacheNode)
		c.add(urls)
		t.changes[known.cacheNode] = c
		t.onPurges(known.cacheNode)
	}
}

// newlyUnsafe returns the URLs of a report with a higher number than seen, and the highest number.
func newlyUnsafe(list []agentapi.UnsafeURL, seen int64) (urls []string, last int64) {
	last = seen
	for _, u := range list {
		if u.Number > seen {
			urls, last = append(urls, u.URL), max(last, u.Number)
		}
	}
	return urls, last
}
