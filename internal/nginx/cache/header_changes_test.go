package cache_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// becomes calls [nginxtest.Becomes].
func becomes(t *testing.T, want string, ask func() string) {
	t.Helper()
	nginxtest.Becomes(t, want, ask)
}

// TestHeaderChanges checks headers of requests and responses: from the origin, from a disk, from memory, and with
// requests that bypass the caches.
func TestHeaderChanges(t *testing.T) {
	t.Parallel()
	const awkward = `a "b" \ c; {d} #`
	var request atomic.Pointer[http.Request]
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		request.Store(r)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("X-Powered-By", "x")
		w.Header().Set("X-Frame-Options", "ALLOWALL")
		text(w, r)
	}, inMemory, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Headers = v1alpha1.Headers{
			Request: v1alpha1.HeaderChanges{
				Set:    []v1alpha1.Header{{Name: "X-Edge", Value: awkward}, {Name: "x-forwarded-port", Value: "443"}},
				Remove: []v1alpha1.HeaderName{"Cookie", "Accept-Encoding"},
			},
			Response: v1alpha1.HeaderChanges{
				Set:    []v1alpha1.Header{{Name: "X-Frame-Options", Value: awkward}, {Name: "cache-control", Value: "no-cache"}},
				Remove: []v1alpha1.HeaderName{"X-Powered-By"},
			},
		}
	})
	check := func(r *http.Response) {
		t.Helper()
		got := map[string][]string{}
		for _, name := range []string{"X-Frame-Options", "Cache-Control", "X-Powered-By"} {
			got[name] = r.Header.Values(name)
		}
		want := map[string][]string{"X-Frame-Options": {awkward}, "Cache-Control": {"no-cache"}, "X-Powered-By": nil}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %s (-want +got)\n%s", place(r), diff)
		}
	}
	sent := []string{"Cookie: a=b", "X-Edge: the client's", "X-Forwarded-Port: 1", "Accept-Encoding: gzip"}
	becomes(t, "HIT memory", func() string { // the first responses are a MISS and a HIT of the disk
		r, _ := ask(t, client, http.MethodGet, example, sent...)
		check(r)
		return place(r)
	})
	r, _ := ask(t, client, http.MethodPost, example, sent...)
	check(r)
	header := request.Load().Header
	got := [][]string{
		header.Values("X-Edge"), header.Values("X-Forwarded-Port"), header.Values("Cookie"), header.Values("Accept-Encoding"),
	}
	if diff := cmp.Diff([][]string{{awkward}, {"443"}, nil, nil}, got); diff != "" {
		t.Errorf("the origin gets (-want +got)\n%s", diff)
	}
}
