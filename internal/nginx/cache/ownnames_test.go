package cache_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreign are headers that an origin sends although their names are reserved for CacheNode.
var foreign = []string{
	"X-CacheNode-Status", "X-CacheNode-Place", "X-CacheNode-Shared", "X-CacheNode-Cache-Control", "X-CacheNode-State",
	"X-CacheNode-Fill", "X-CacheNode-Former", "X-CacheNode-Slice", "X-CacheNode-Disk", "X-CacheNode-Ask",
	"X-CacheNode-Renew", "X-CacheNode-Scheme", "X-Cache", "X-Cache-Disk", "X-Cache-Hop",
}

// foreignIn returns the headers in a response that have CacheNode's own names, but that CacheNode did not set.
func foreignIn(r *http.Response) map[string][]string {
	found := map[string][]string{}
	for name, values := range r.Header {
		value := strings.Join(values, ",")
		private := strings.HasPrefix(name, "X-Cachenode-")
		if private || strings.HasPrefix(name, "X-Cache") && (len(values) != 1 || strings.Contains(value, "foreign")) {
			found[name] = values
		}
	}
	return found
}

// TestOwnNames checks headers of an origin that have CacheNode's own names. They neither reach clients nor change the
// headers that CacheNode sets. The test covers responses from the origin, a disk and memory and responses that bypass
// the caches, each with and without a hop.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(func(w http.ResponseWriter, _ *http.Request) bool {
				for _, name := range foreign {
					w.Header().Set(name, "foreign")
				}
				return false
			})
			path := ownedBySecond(t, "/page")
			for range 4 {
				for pod, client := range p.clients {
					for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
						r, _ := ask(t, client, method, "http://127.0.0.1:8080"+path)
						if diff := cmp.Diff(map[string][]string{}, foreignIn(r)); diff != "" {
							t.Errorf("pod %d, %s, %s (-want +got):\n%s", pod, method, how(r), diff)
						}
					}
				}
			}
		})
	}
}

// TestOwnNamesInStoredObjects checks the same as TestOwnNames for an object that was stored with such headers.
func TestOwnNamesInStoredObjects(t *testing.T) {
	t.Parallel()
	const lookalike = "X-CacheN0de-"
	for name, tt := range map[string]struct{ yaml, slice string }{
		"hard disks": {sharded(""), ""}, "SSD": {fastSharded(""), ""},
		"slices": {sharded("  cache: {slice: {size: 1Mi}}\n"), "bytes=0-1048575 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, tt.yaml+"  memoryTier: {enabled: false}\n")
			p.answers(func(w http.ResponseWriter, _ *http.Request) bool {
				for _, name := range foreign[:2] {
					w.Header().Set(strings.Replace(name, "X-CacheNode-", lookalike, 1), "foreign")
				}
				return false
			})
			path := ownedBySecond(t, "/page")
			p.get(t, 1, path)
			for _, file := range p.nginx[1].Cached(tt.slice+"http://www.example.com"+path, "disk1", "disk2") {
				content, err := os.ReadFile(file)
				must(t, err)
				changed := bytes.ReplaceAll(content, []byte(http.CanonicalHeaderKey(lookalike)), []byte("X-CacheNode-"))
				if bytes.Equal(content, changed) {
					t.Fatalf("%q has no header to change", content[:min(len(content), 2000)])
				}
				must(t, os.WriteFile(file, changed, 0o644))
			}
			for pod, hop := range []string{"peer", "none"} {
				r := p.get(t, pod, path)
				if diff := cmp.Diff(map[string][]string{}, foreignIn(r)); diff != "" || how(r) != hop+" HIT" {
					t.Errorf("pod %d: %s (-want +got):\n%s", pod, how(r), diff)
				}
			}
		})
	}
}
