package purgeapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// CacheOptions returns the options of a cache that contains the CachePurges of some namespaces; an empty list means all
// namespaces. Of a spec, the cache contains only the name of the CacheNode. The rest is not needed, and there can be
// many CachePurges.
func CacheOptions(namespaces []string) cache.Options {
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&v1alpha1.CachePurge{}: {Transform: withoutSpec},
	}}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil { // nil stands for all namespaces
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

func withoutSpec(object any) (any, error) {
	if cp, isPurge := object.(*v1alpha1.CachePurge); isPurge {
		cp.ManagedFields, cp.Annotations = nil, nil
		cp.Spec = v1alpha1.CachePurgeSpec{CacheNode: cp.Spec.CacheNode}
	}
	return object, nil
}

// watcher wakes the requests that wait for a CachePurge. It is safe for concurrent use.
type watcher struct {
	reader client.Reader // the cache

	mutex   sync.Mutex
	waiting map[client.ObjectKey]map[chan struct{}]bool
}

// newWatcher returns a watcher for a cache. The cache may start later, or may have started already.
func newWatcher(ctx context.Context, c cache.Cache) (*watcher, error) {
	w := &watcher{reader: c, waiting: map[client.ObjectKey]map[chan struct{}]bool{}}
	informer, err := c.GetInformer(ctx, &v1alpha1.CachePurge{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.wake, UpdateFunc: func(_, object any) { w.wake(object) }, DeleteFunc: w.wake,
	})
	return w, err
}

// wake wakes the requests that wait for an object that has changed.
func (w *watcher) wake(object any) {
	key, err := toolscache.DeletionHandlingObjectToName(object)
	if err != nil {
		return // this cannot happen, because all watched objects have names
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for changed := range w.waiting[key.AsNamespacedName()] {
		select {
		case changed <- struct{}{}:
		default: // the request has already been woken
		}
	}
}

// listen returns a channel that receives a value when the CachePurge changes. This ends when stop is called.
func (w *watcher) listen(key client.ObjectKey) (changed chan struct{}, stop func()) {
	changed = make(chan struct{}, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waiting[key] == nil {
		w.waiting[key] = map[chan struct{}]bool{}
	}
	w.waiting[key][changed] = true
	return changed, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if delete(w.waiting[key], changed); len(w.waiting[key]) == 0 {
			delete(w.waiting, key)
		}
	}
}

// await waits until isDone returns true for a CachePurge, or until the context ends. It returns the last known state of
// the CachePurge. A new CachePurge may not be in the cache yet. In this case, cp is its last known state.
func (w *watcher) await(
	ctx context.Context, cp *v1alpha1.CachePurge, isDone func(*v1alpha1.CachePurge) bool,
) (*v1alpha1.CachePurge, error) {
	key := client.ObjectKeyFromObject(cp)
	changed, stop := w.listen(key)
	defer stop()
	for wasThere, isOver := false, false; ; {
		latest := &v1alpha1.CachePurge{}
		switch err := w.reader.Get(context.WithoutCancel(ctx), key, latest); {
		case err == nil:
			cp = latest
		case !apierrors.IsNotFound(err):
			return nil, err
		case wasThere:
			return nil, &problem{code: http.StatusNotFound, text: fmt.Sprintf(
				"cachepurge %s was deleted before it was finished: send the request again", key)}
		}
		if isOver || isDone(cp) {
			return cp, nil
		}
		select {
		case <-changed:
			wasThere = true
		case <-ctx.Done():
			isOver = true // await reads the cache once more and returns
		}
	}
}
