package cache_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// hanging is an origin whose objects may be stored. While hangs is true, it answers nothing until it is released.
type hanging struct {
	hangs    atomic.Bool
	asked    atomic.Int64
	arrived  chan struct{}
	released chan struct{}
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	if strings.HasPrefix(r.URL.Path, "/object/strict") {
		w.Header().Set("Cache-Control", "max-age=60, must-revalidate")
	}
	if strings.HasSuffix(r.URL.Path, "/varies") {
		w.Header().Set("Vary", "Accept-Encoding")
	}
	if strings.HasSuffix(r.URL.Path, "/valid") {
		w.Header().Set("ETag", `"1"`)
	}
	if !h.hangs.Load() {
		_, _ = io.WriteString(w, "old")
		return
	}
	h.asked.Add(1)
	select {
	case h.arrived <- struct{}{}:
	default:
	}
	select {
	case <-h.released:
	case <-r.Context().Done():
		return
	}
	if strings.HasPrefix(r.URL.Path, "/object/gone") {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusGone)
	}
	if r.Header.Get("If-None-Match") != "" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = io.WriteString(w, "new")
}

// expire changes a stored object so that it expired an hour ago. That is longer than staleWhileRevalidate and shorter
// than staleIfError. nginx reads this time from the object's file at each request.
func expire(t *testing.T, n *nginxtest.Nginx, key string, disks ...string) {
	t.Helper()
	if len(disks) == 0 {
		disks = []string{"disk1", "disk2", "disk3"}
	}
	expireFiles(t, n.Cached(key, disks...))
}

// expireKept does the same as expire for the response that the gateway keeps for requests that wait for a renewal.
// condition is the condition in the cache's request; "" if it has none.
func expireKept(t *testing.T, n *nginxtest.Nginx, path, condition string) {
	t.Helper()
	const host = "www.example.com"
	expireFiles(t, n.CachedIn("GET http "+host+" "+host+path+" "+condition+" ",
		layout.RefreshDir("disk1"), layout.RefreshDir("disk2"), layout.RefreshDir("disk3")))
}

// expireFiles does the same as expire for the given files of nginx's caches.
func expireFiles(t *testing.T, files []string) {
	t.Helper()
	for _, file := range files {
		must(t, cachefile.Expire(file, nginxtest.Now().Add(-time.Hour)))
	}
}

// TestOriginThatHangs checks that only the request that renews an object waits for an origin that hangs. The other
// requests get the stale copy in the meantime, if it may be served. Otherwise they wait for the answer. The request
// that renews also learns that an object is gone.
func TestOriginThatHangs(t *testing.T) {
	t.Parallel()
	h := &hanging{arrived: make(chan struct{}), released: make(chan struct{})}
	n := start(t, h.ServeHTTP)
	client := n.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	get := func(path string) string {
		r, body := ask(t, client, http.MethodGet, example+path)
		return r.Header.Get("X-Cache") + " " + strings.TrimSpace(body)
	}
	paths := []string{"/stale", "/gone", "/strict"}
	for _, path := range paths {
		get(path)
		expire(t, n, "http://www.example.com/object"+path)
	}
	h.hangs.Store(true)
	var mutex sync.Mutex
	first, strict := map[string]string{}, map[string]int{}
	var renewing, waiting sync.WaitGroup
	for _, path := range paths {
		renewing.Go(func() {
			got := get(path)
			mutex.Lock()
			defer mutex.Unlock()
			first[path] = got
		})
		<-h.arrived // the first request to the origin for each path is the renewal
	}
	for range 20 {
		waiting.Go(func() {
			got := get("/strict")
			mutex.Lock()
			defer mutex.Unlock()
			strict[got]++
		})
	}
	var others sync.WaitGroup
	for _, path := range paths[:2] {
		for range 20 {
			others.Go(func() {
				for range 3 {
					if got := get(path); got != "STALE old" {
						t.Errorf("%s while the origin hangs: %s", path, got)
					}
				}
			})
		}
	}
	others.Wait() // while the origin hangs
	close(h.released)
	renewing.Wait()
	waiting.Wait()
	want := map[string]string{"/stale": "EXPIRED new", "/gone": "EXPIRED new", "/strict": "EXPIRED new"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the requests that renew (-want +got):\n%s", diff)
	}
	if strict["STALE old"]+strict["HIT old"]+strict["UPDATING old"] > 0 {
		t.Errorf("an object that may not be served stale: %v", strict)
	}
	// For each object, the origin gets the renewal and one more request after a second. A request that waits for /strict
	// may lead to another one.
	if asked := h.asked.Load(); asked > 9 {
		t.Errorf("the origin was asked %d times while it hung", asked)
	}
}

// TestWorkerThatDies checks the lock of a worker that dies while it fetches an object. No request waits for this lock
// longer than lock.age, which follows from the timeouts.
func TestWorkerThatDies(t *testing.T) {
	t.Parallel()
	h := &hanging{arrived: make(chan struct{}), released: make(chan struct{})}
	h.hangs.Store(true)
	n := start(t, h.ServeHTTP, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Origin.Timeouts.Connect, spec.Origin.Timeouts.Read, spec.Origin.Retries.Timeout = "1s", "5s", "1s"
	})
	broken := make(chan error, 1)
	go func() {
		request, err := http.NewRequest(http.MethodGet, example, nil)
		if err == nil {
			request.Host = "www.example.com"
			var r *http.Response
			if r, err = n.Client().Do(request); err == nil {
				_ = r.Body.Close()
			}
		}
		broken <- err
	}()
	<-h.arrived
	h.hangs.Store(false)
	for _, pid := range n.Processes()[1:] { // all but the master
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := <-broken; err == nil {
		t.Error("the request of the worker that died has an answer")
	}
	r, body := ask(t, n.Client(), http.MethodGet, example)
	if r.StatusCode != http.StatusOK || body != "old" {
		t.Errorf("the next request: %d, %q", r.StatusCode, body)
	}
	r, _ = ask(t, n.Client(), http.MethodGet, example)
	if got := r.Header.Get("X-Cache"); got != "HIT" {
		t.Errorf("the one after it: %s", got)
	}
}
