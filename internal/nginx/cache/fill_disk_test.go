package cache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// TestFillFromThePreviousDisk checks that a disk that is added fills the keys that it gets from the disks that had
// them, whether or not pods share keys, and that the origin is asked for nothing but what no disk has.
func TestFillFromThePreviousDisk(t *testing.T) {
	t.Parallel()
	const sharded = threeDisks + "  routing: {mode: Sharded, tls: \"Off\"}\n"
	for name, tt := range map[string]struct {
		yaml string
		// previous are the owners before, which have nothing.
		previous fleet.Owners
	}{
		"Local": {yaml: threeDisks}, "Sharded": {yaml: sharded},
		"Sharded, and another pod had the keys before": {sharded, fleet.Owners{Members: []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, strings.Replace(tt.yaml, ", {name: disk3, size: 1Gi}", "", 1))
			p.reconfigure(t, fleet.Of(1))
			var paths []string
			for i := range 60 {
				paths = append(paths, fmt.Sprintf("/object/%d", i), fmt.Sprintf("/plain/%d", i))
			}
			before := map[string]string{}
			for _, path := range paths {
				before[path] = p.get(t, 0, path).Header.Get("X-Cache-Disk")
			}
			p.yaml = tt.yaml
			f := fleet.Of(1)
			f.Disks.Members = []fleet.Disk{{Name: "disk1", Weight: 1024}, {Name: "disk2", Weight: 1024}}
			f.Previous = tt.previous
			p.take(t, 0, f)
			moved := 0
			for _, path := range paths {
				first, second := p.get(t, 0, path), p.get(t, 0, path)
				want := "HIT"
				if first.Header.Get("X-Cache-Disk") != before[path] {
					moved++
					want = "MISS"
				}
				if got := first.Header.Get("X-Cache"); got != want {
					t.Errorf("%s on %s: %s, want %s", path, first.Header.Get("X-Cache-Disk"), got, want)
				}
				if got := second.Header.Get("X-Cache"); got != "HIT" {
					t.Errorf("%s again: %s", path, got)
				}
				if n := p.requests(path); n != 1 {
					t.Errorf("%s: the origin was asked %d times", path, n)
				}
				for _, header := range []string{"Date", "Content-Length", "X-Cache", "X-Seen"} {
					if len(first.Header.Values(header)) != 1 {
						t.Errorf("%s: %s is %q", path, header, first.Header.Values(header))
					}
				}
				if got := first.Header.Get("X-Accel-Expires") + first.Header.Get("Cache-Control"); got != "" {
					t.Errorf("a client sees %v", first.Header)
				}
			}
			if moved < 20 || moved > 60 {
				t.Errorf("%d of %d objects are on another disk", moved, len(paths))
			}
			for i := range 20 { // no disk has them
				path := fmt.Sprintf("/object/new-%d", i)
				p.get(t, 0, path)
				if n := p.requests(path); n != 1 {
					t.Errorf("%s: the origin was asked %d times", path, n)
				}
			}
			p.take(t, 0, fleet.Of(1)) // the hand-over ends
			for _, path := range paths {
				if got := p.get(t, 0, path).Header.Get("X-Cache"); got == "MISS" {
					t.Errorf("%s afterwards: %s", path, got)
				}
			}
		})
	}
}
