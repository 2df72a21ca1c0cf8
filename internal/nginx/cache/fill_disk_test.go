package cache_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// aDiskMore returns a fleet of one pod that had two disks before the last change.
func aDiskMore() fleet.Fleet {
	f := fleet.Of(1)
	f.Disks.Members = []fleet.Disk{{Name: "disk1", Weight: 1024}, {Name: "disk2", Weight: 1024}}
	return f
}

// aPodMore returns a fleet of two pods. The second pod is new.
func aPodMore() fleet.Fleet {
	f := fleet.Of(2)
	f.Previous = fleet.Of(1).Owners
	return f
}

// TestFillOfSlices checks that slices are filled from the pod and from the disk that had them, and that a client that
// asks for a range gets the right bytes.
func TestFillOfSlices(t *testing.T) {
	t.Parallel()
	const sliced = "  cache: {slice: {size: 1Mi}}\n"
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	former, joined := aDiskMore(), aPodMore()
	for name, tt := range map[string]struct {
		before, after string
		fleet         fleet.Fleet
		// folder is the beginning of the objects' paths. counts is true if the origin is asked once for each slice.
		folder string
		counts bool
	}{
		"another disk": {two + sliced, threeDisks + sliced, former, "/large", true},
		"another pod":  {sharded(sliced), sharded(sliced), joined, "/large", true},
		// This origin sends the whole object for each slice.
		"an origin without ranges":              {two + sliced, threeDisks + sliced, former, "/unranged", false},
		"an origin without ranges, another pod": {sharded(sliced), sharded(sliced), joined, "/unranged", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, tt.before)
			p.reconfigure(t, fleet.Of(1))
			get := func(path, bytes string) *http.Response {
				t.Helper()
				r, body := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path, "Range: bytes="+bytes)
				var from, to int
				if _, err := fmt.Sscanf(bytes, "%d-%d", &from, &to); err != nil {
					t.Fatal(err)
				}
				want := large(path)
				if to = min(to+1, len(want)); r.StatusCode != http.StatusPartialContent || body != want[from:to] {
					t.Fatalf("%s, bytes %s: status %d, %d bytes, want %d", path, bytes, r.StatusCode, len(body), to-from)
				}
				return r
			}
			const all = "0-9999999"
			var paths []string
			for i := range 20 {
				paths = append(paths, fmt.Sprintf("%s/%d", tt.folder, i))
				get(paths[i], all)
			}
			p.yaml = tt.after
			p.reconfigure(t, tt.fleet)
			asked, moved := map[string]int{}, 0
			for _, path := range paths {
				asked[path] = p.requests(path)
				if get(path, "1500000-2500000").Header.Get("X-Cache") == "MISS" {
					moved++
				}
				get(path, all)
				if r := get(path, all); r.Header.Get("X-Cache") != "HIT" {
					t.Errorf("%s: %s", path, r.Header.Get("X-Cache"))
				}
				if n := p.requests(path) - asked[path]; tt.counts && n != 0 {
					t.Errorf("%s: the origin was asked %d times more", path, n)
				}
			}
			if moved < 3 {
				t.Errorf("%d of %d objects have moved", moved, len(paths))
			}
			if get(tt.folder+"/new", all); tt.counts && p.requests(tt.folder+"/new") != 3 {
				t.Errorf("the origin was asked %d times for a new object", p.requests(tt.folder+"/new"))
			}
		})
	}
}

// TestFillOfExpired checks that an object is also filled from an expired copy on another pod or disk: the origin only
// confirms that the copy is still valid. The origin may take long for this answer.
func TestFillOfExpired(t *testing.T) {
	t.Parallel()
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	former, joined := aDiskMore(), aPodMore()
	for name, tt := range map[string]struct {
		before, after string
		fleet         fleet.Fleet
	}{
		"another disk": {two, threeDisks, former},
		"another pod":  {fastSharded(""), fastSharded(""), joined},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPodsEdited(t, hasty, 2, tt.before)
			p.reconfigure(t, fleet.Of(1))
			var paths []string
			for i := range 30 {
				paths = append(paths, fmt.Sprintf("/aged/%d", i))
				p.get(t, 0, paths[i])
				p.get(t, 0, fmt.Sprintf("/private/%d", i))
			}
			paths = append(paths, "/aged/slow")
			p.get(t, 0, "/aged/slow")
			for path := range p.asked {
				expire(t, p.nginx[0], "http://www.example.com"+path, "disk1", "disk2")
			}
			p.yaml = tt.after
			p.reconfigure(t, tt.fleet)
			moved := 0
			for _, path := range paths {
				if p.get(t, 0, path).Header.Get("X-Cache") == "MISS" {
					moved++
				}
				if asked, renewed := p.requests(path), p.renewals(path); asked != 2 || renewed != 1 {
					t.Errorf("%s: the origin was asked %d times, and answered 304 %d times", path, asked, renewed)
				}
				if got := p.get(t, 0, path).Header.Get("X-Cache"); got != "HIT" {
					t.Errorf("%s again: %s", path, got)
				}
			}
			if moved < 5 {
				t.Errorf("%d of %d objects have moved", moved, len(paths))
			}
			for i := range 30 {
				path := fmt.Sprintf("/private/%d", i)
				for n := 2; n < 5; n++ {
					if p.get(t, 0, path); p.requests(path) < n {
						t.Errorf("%s: request %d got a response that was for another", path, n)
					}
				}
			}
		})
	}
}

// TestFillFromThePreviousDisk checks that an added disk fills the objects of its new keys from the disks that had these
// keys. It also checks that the other disks fill from a leaving disk. Both work whether or not pods share keys. The
// origin is asked only for objects that no disk has.
func TestFillFromThePreviousDisk(t *testing.T) {
	t.Parallel()
	const third, shared = ", {name: disk3, size: 1Gi}", "  routing: {mode: Sharded, tls: \"Off\"}\n"
	const decoded = "  cache: {key: [Method, Scheme, Host, URI, Args]}\n"
	const filtered = "  cache: {query: {drop: [utm_source]}}\n"
	two := strings.Replace(threeDisks, third, "", 1)
	for name, tt := range map[string]struct {
		before, after string
		// previous are the previous owners of the keys. They have no objects.
		previous fleet.Owners
		// leaves is true if the last disk is removed afterwards.
		leaves bool
	}{
		"Local": {before: two, after: threeDisks}, "Sharded": {before: two + shared, after: threeDisks + shared},
		"Sharded, and another pod had the keys before": {
			before: two + shared, after: threeDisks + shared, previous: fleet.Owners{Members: []int{1}},
		},
		"a decoded key":              {before: two + decoded, after: threeDisks + decoded},
		"a decoded key, and Sharded": {before: two + shared + decoded, after: threeDisks + shared + decoded},
		"a filtered query":           {before: two + filtered, after: threeDisks + filtered},
		"a disk leaves":              {before: threeDisks, after: threeDisks, leaves: true},
		"a disk leaves, and Sharded": {before: threeDisks + shared, after: threeDisks + shared, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, tt.before)
			p.reconfigure(t, fleet.Of(1))
			var paths []string
			for i := range 60 {
				paths = append(paths, fmt.Sprintf("/object/%d", i), fmt.Sprintf("/plain/%d", i))
			}
			before := map[string]string{}
			for _, path := range paths {
				before[path] = p.get(t, 0, path).Header.Get("X-Cache-Disk")
			}
			p.yaml = tt.after
			f := fleet.Of(1)
			for i := range strings.Count(tt.before, "name: disk") {
				f.Disks.Members = append(f.Disks.Members, fleet.Disk{Name: fmt.Sprintf("disk%d", i+1), Weight: 1024})
			}
			f.Previous = tt.previous
			p.change = func(_ int, in *cache.Input, _ func(string, []byte)) {
				if tt.leaves {
					in.Spec.Disks[2].Weight = new(int32(0))
				}
			}
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
				if on := second.Header.Get("X-Cache-Disk"); tt.leaves && on == "disk3" {
					t.Errorf("%s is on the disk that leaves", path)
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
			for i := range 20 { // no disk has these objects
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
