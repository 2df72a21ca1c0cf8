package cache_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestMixedTags checks that a file is served whole after the origin's servers have shown different entity tags for it.
// Until then, nginx cuts the responses.
func TestMixedTags(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"hard disks": sharded("  cache: {slice: {size: 1Mi}}\n"), "SSD": fastSharded("  cache: {slice: {size: 1Mi}}\n"),
		"a memory tier": sharded("  cache: {slice: {size: 1Mi}}\n" + nginxtest.MemoryTier("minUses: 1")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			path := ownedBySecond(t, "/file")
			body := large(path)
			var asked atomic.Int64
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("ETag", fmt.Sprintf(`"server-%d"`, asked.Add(1)%2)) // servers take turns
				w.Header().Set("Cache-Control", "max-age=600")
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
				return true
			})
			cut := 0
			for tries := 1; ; tries++ {
				if got := answerOf(t.Context(), p.clients[0], "http://127.0.0.1:8080"+path); strings.HasPrefix(got, "200 ") {
					break
				}
				cut++
				if tries == 10 {
					t.Fatalf("%d responses in a row were cut", tries)
				}
			}
			if cut == 0 {
				t.Error("no response was cut: the origin's tags do not differ")
			}
			p.nginx[1].Cached("http://www.example.com"+path, "disk1", "disk2") // waits until the whole object is stored
			before := asked.Load()
			want := fmt.Sprint("200 ", len(body), " HIT")
			for pod := range 2 {
				if got := answerOf(t.Context(), p.clients[pod], "http://127.0.0.1:8080"+path); got != want {
					t.Errorf("pod %d: %s, want %s", pod, got, want)
				}
			}
			if asked.Load() != before {
				t.Error("the origin was asked for the whole twice")
			}
		})
	}
}

// TestNewVersionIsNoMix checks that a file is still fetched in slices after the origin has a new version of it.
func TestNewVersionIsNoMix(t *testing.T) {
	t.Parallel()
	p := newPods(t, 1, sharded("  cache: {slice: {size: 1Mi}}\n"))
	const path = "/file"
	body, version, whole := large(path), "1", 0
	p.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			whole++
		}
		w.Header().Set("ETag", `"version-`+version+`"`)
		w.Header().Set("Cache-Control", "no-store")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
		return true
	})
	for _, next := range []string{"1", "2", "3", "4"} {
		p.locked(func() { version = next })
		for range 2 {
			got := answerOf(t.Context(), p.clients[0], "http://127.0.0.1:8080"+path)
			if want := fmt.Sprint("200 ", len(body), " MISS"); got != want {
				t.Errorf("version %s: %s, want %s", next, got, want)
			}
		}
	}
	if strings.Contains(p.nginx[0].Log(), "uninitialized") {
		t.Error("nginx warns of a variable")
	}
	p.locked(func() {
		if whole > 0 {
			t.Errorf("%d requests for the whole", whole)
		}
	})
}
