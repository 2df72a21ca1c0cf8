package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestGenerationsOfFailedDisks checks that nginx accepts the configuration for disks with generations, no matter which
// of the disks have failed.
func TestGenerationsOfFailedDisks(t *testing.T) {
	t.Parallel()
	generations := map[string]int64{"disk1": 1, "disk2": 2, "disk3": 3}
	moved := fleet.Of(3)
	moved.Previous = fleet.Of(2).Owners
	moved.Disks.Members = []fleet.Disk{{Name: "disk1", Weight: 1024}}
	const sliced = "  cache: {slice: {size: 1Mi}}\n"
	for name, tt := range map[string]struct {
		yaml  string
		fleet fleet.Fleet
	}{
		"one pod":               {yaml: threeDisks},
		"slices":                {yaml: threeDisks + sliced},
		"no memory tier":        {yaml: threeDisks + "  memoryTier: {enabled: false}\n"},
		"pods share keys":       {sharded(""), fleet.Of(3)},
		"they have slices":      {sharded(sliced), fleet.Of(3)},
		"their keys have moved": {sharded(""), moved},
		"with slices":           {sharded(sliced), moved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			for failed := range 1 << 3 {
				in := decode(t, []byte(tt.yaml))
				in.Facts.Generations = generations
				in.Facts.Fleet = cache.Fleet{Fleet: tt.fleet}
				for i, d := range in.Spec.Disks {
					if failed&(1<<i) != 0 {
						in.Facts.Failed = append(in.Facts.Failed, d.Name)
					}
				}
				config, err := cache.Render(in)
				must(t, err)
				n.Configure(config.Text, "disk1", "disk2", "disk3")
				n.Mkdir(layout.MemoryTierDir)
				if output, err := n.Test(); err != nil {
					t.Errorf("without %v: %v\n%s", in.Facts.Failed, err, output)
				}
			}
		})
	}
}

// TestGenerations checks a disk that gets a new generation. Requests do not find its old objects, and it stores new
// ones. The other disk and the plans do not change. When the disk gets its old generation back, requests find the old
// objects again.
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
			"  cache: {key: [Host, RequestURI]}\n" + nginxtest.MemoryTier(""), "", 1,
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
			// want is the X-Cache of responses from disk2. Responses from disk1 do not depend on the generation.
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
					file := p.nginx[0].Root + cachekey.OnDisk(disk, key(stored))
					becomes(t, "stored", func() string { // nginx stores the object after it has answered the client
						if _, err := os.Stat(file); err != nil {
							return err.Error()
						}
						return "stored"
					})
				}
			}
			same := func(key string) string { return key }
			round("MISS", same)
			round("HIT", same)
			generation = 12
			other := func(key string) string { return cachekey.Key{Generation: generation}.String() + key }
			round("MISS", other)
			round("HIT", other)
			generation = 0
			round("HIT", same)
		})
	}
}
