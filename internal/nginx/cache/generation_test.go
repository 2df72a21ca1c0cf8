package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestGenerations checks that a disk of another generation has none of its objects and stores new ones, that the other
// disk and the plans are as before, and that the disk has its objects again when its generation is the old one.
func TestGenerations(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec, bytes string
		pods        int
	}{
		"whole objects":   {"  cache: {key: [Host, RequestURI]}\n", "", 1},
		"slices":          {"  cache: {key: [Host, RequestURI], slice: {size: 1Mi}}\n", "bytes=0-1500000", 1},
		"pods share keys": {"  cache: {key: [Host, RequestURI]}\n", "", 2},
		"with a memory tier, not asked": {
			"  cache: {key: [Host, RequestURI]}\n  memoryTier: {enabled: true, size: 64Mi}\n", "", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := tt.spec
			if !strings.Contains(spec, "memoryTier") {
				spec += "  memoryTier: {enabled: false}\n"
			}
			if tt.pods == 1 {
				spec = strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1) + spec
			} else {
				spec = sharded(spec)
			}
			var generation int64
			p := newPods(t, tt.pods, spec, func(_ int, in *cache.Input, _ func(string, []byte)) {
				if generation != 0 {
					in.Facts.Generations = map[string]int64{"disk2": generation}
				}
			})
			// want is how a response comes about on disk2. Those on disk1 are as in the first round.
			round := func(want string, key func(key string) string) {
				t.Helper()
				p.reconfigure(t, fleet.Of(tt.pods))
				for i := range 20 {
					path := fmt.Sprintf("/large/%d", i)
					r, body := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path, "Range: "+tt.bytes)
					if len(body) == 0 {
						t.Fatalf("%s: status %d", path, r.StatusCode)
					}
					disk, expected := r.Header.Get("X-Cache-Disk"), want
					if disk == "disk1" && generation != 0 {
						expected = "HIT"
					}
					if got := r.Header.Get("X-Cache"); got != expected {
						t.Errorf("generation %d, %s on %s: %s, want %s", generation, path, disk, got, expected)
					}
					if disk != "disk2" || tt.pods > 1 {
						continue
					}
					stored := "www.example.com" + path
					if tt.bytes != "" {
						stored = "bytes=0-1048575 " + stored
					}
					file := p.nginx[0].Root + cache.File(disk, key(stored))
					// nginx stores it after the client has it.
					for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
						if _, err := os.Stat(file); err == nil {
							break
						} else if time.Now().After(deadline) {
							t.Fatal(err)
						}
					}
				}
			}
			same := func(key string) string { return key }
			round("MISS", same)
			round("HIT", same)
			generation = 12
			other := func(key string) string { return cache.GenerationKey(generation, key) }
			round("MISS", other)
			round("HIT", other)
			generation = 0
			round("HIT", same)
		})
	}
}
