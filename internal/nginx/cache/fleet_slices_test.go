package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
)

// TestLookAtSlices checks that a lookup by another pod reads the first slice that the request needs from its disk. So
// the lookup detects a disk that hangs.
func TestLookAtSlices(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cache string
		found bool
	}{
		"each use stores":     {"slice: {size: 1Mi}", true},
		"a second use stores": {"slice: {size: 1Mi}, minUses: 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, sharded("  cache: {"+tt.cache+"}\n  memoryTier: {enabled: false}\n"))
			path := ownedBySecond(t, "/large")
			for range 2 {
				_, body := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path)
				if body != large(path) {
					t.Fatalf("%d bytes", len(body))
				}
			}
			look := func(asked string) string {
				r, _ := ask(t, p.clients[1], http.MethodHead, "http://127.0.0.1:8088"+path,
					"X-CacheNode-Ask: @fetch_from_owner", "Range: "+asked, "X-CacheNode-Scheme: http")
				return fmt.Sprint(r.StatusCode)
			}
			want := map[bool]string{true: "206", false: "470"}
			for _, asked := range []string{"bytes=0-9", "bytes=1048576-1048585", "bytes=2000000-"} {
				if got := look(asked); got != want[tt.found] {
					t.Errorf("Range %s: %s, want %s", asked, got, want[tt.found])
				}
			}
			for _, file := range p.nginx[1].Cached("bytes=1048576-2097151 http://www.example.com"+path, "disk1", "disk2") {
				must(t, os.Remove(file))
			}
			if got := look("bytes=1048576-1048585"); got != want[false] {
				t.Errorf("a slice that is gone: %s", got)
			}
			if got := look("bytes=0-9"); got != want[tt.found] {
				t.Errorf("the slice before it: %s", got)
			}
		})
	}
}
