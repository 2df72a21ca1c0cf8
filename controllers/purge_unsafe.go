package controllers

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// changedURLs are URLs at which clients have changed something, by the CacheNode. It is safe for concurrent use.
type changedURLs struct {
	mutex sync.Mutex
	urls  map[types.NamespacedName][]string
}

// add adds URLs, each once, as far as one purge can name them: others are forgotten.
func (c *changedURLs) add(cacheNode types.NamespacedName, urls []string) {
	if len(urls) == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.urls == nil {
		c.urls = map[types.NamespacedName][]string{}
	}
	known := c.urls[cacheNode]
	for _, url := range urls {
		if len(known) < purge.MaxItems && !slices.Contains(known, url) {
			known = append(known, url)
		}
	}
	c.urls[cacheNode] = known
}

// take takes all of a CacheNode's.
func (c *changedURLs) take(cacheNode types.NamespacedName) []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	urls := c.urls[cacheNode]
	delete(c.urls, cacheNode)
	return urls
}

// newlyUnsafe are the URLs of a report that are newer than a number, and the number of the newest one.
func newlyUnsafe(list []agentapi.UnsafeURL, seen int64) (urls []string, last int64) {
	last = seen
	for _, u := range list {
		if u.Number > seen {
			urls, last = append(urls, u.URL), max(last, u.Number)
		}
	}
	return urls, last
}

// changed has a CacheNode's pods make stale what they have of URLs.
func (r *PurgeReconciler) changed(cacheNode types.NamespacedName, urls []string) {
	r.unsafe.add(cacheNode, urls)
	of := &v1alpha1.CacheNode{}
	of.Namespace, of.Name = cacheNode.Namespace, cacheNode.Name
	select {
	case r.late <- event.TypedGenericEvent[*v1alpha1.CacheNode]{Object: of}:
	default: // the next pass takes them
	}
}

// unsafePrefix begins the UID of a rule that no CachePurge has asked for.
const unsafePrefix = "unsafe-"

// admitUnsafe gives a place to a rule for the URLs at which clients have changed something. They are forgotten if the
// journal is full: nobody was promised anything.
//
// They have one rule without an end at a time, and half of the journal at most, so that they leave room for purges.
func (j *journal) admitUnsafe(next *purge.Log, p *purging) {
	for _, r := range next.Rules {
		if r.Until.IsZero() && strings.HasPrefix(r.UID, unsafePrefix) {
			return // a later pass takes them
		}
	}
	defer func() { p.unsafe = nil }()
	var valid []string
	for _, url := range p.unsafe {
		if (purge.Target{URLs: []string{url}}).Check(p.cacheNode.Spec.Cache) == nil {
			valid = append(valid, url)
		}
	}
	if len(valid) == 0 || p.cacheNode.Spec.Purge.UnsafeMethods == v1alpha1.UnsafeIgnore {
		return
	}
	r := purge.Rule{
		UID: fmt.Sprint(unsafePrefix, p.now.UnixNano()), Name: "requests that change something", Soft: true,
		Target: purge.Target{URLs: valid},
	}
	if r.Size() <= purge.MaxRule && next.Size() < purge.Slots*purge.SegmentSize/2 {
		next.Add(p.now, r)
	}
}
