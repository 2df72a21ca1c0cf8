package controllers

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
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

// changed makes stale what a CacheNode's pods have of URLs. It leaves out what is no URL.
func (r *PurgeReconciler) changed(cacheNode types.NamespacedName, urls []string) {
	r.unsafe.add(cacheNode, slices.DeleteFunc(urls, func(url string) bool {
		return (purge.Target{URLs: []string{url}}).CheckForm() != nil
	}))
	of := &v1alpha1.CacheNode{}
	of.Namespace, of.Name = cacheNode.Namespace, cacheNode.Name
	select {
	case r.late <- event.TypedGenericEvent[*v1alpha1.CacheNode]{Object: of}:
	default: // the next pass takes them
	}
}
