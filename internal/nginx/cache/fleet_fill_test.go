package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// take gives a pod another fleet, and waits until all workers of the pod use it.
func (p *pods) take(t *testing.T, pod int, f fleet.Fleet) {
	t.Helper()
	version := p.render(t, pod, f).Version
	p.configure(t, pod, f)
	must(t, syscall.Kill(p.nginx[pod].Processes()[0], syscall.SIGHUP))
	becomes(t, "eight answers of new workers", func() string { // in a row, each over its own connection
		for range 8 {
			p.clients[pod].CloseIdleConnections() // they lead to old workers
			if _, body := ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8081/version"); body != version {
				return "version " + body
			}
		}
		return "eight answers of new workers"
	})
	p.clients[pod].CloseIdleConnections()
}

// reconfigure gives all pods another fleet.
func (p *pods) reconfigure(t *testing.T, f fleet.Fleet) {
	t.Helper()
	for pod := range p.nginx {
		p.take(t, pod, f)
	}
}

// TestFillFromThePreviousOwner checks that a joining pod fills the objects of its new keys from their previous owners.
// A filled object is fresh for a short time only. After that, the origin is asked once, and the object is then fresh as
// long as any other object.
func TestFillFromThePreviousOwner(t *testing.T) {
	t.Parallel()
	const filledFor = 5 * time.Minute // instead of ten seconds: the test may take longer
	p := newPodsEdited(t, func(text string) string {
		const filled = `"~^(?:HIT|REVALIDATED|STALE)$" `
		return strings.Replace(patient(text), filled+"10;", fmt.Sprintf("%s%.0f;", filled, filledFor.Seconds()), 1)
	}, 3, sharded(""))
	p.reconfigure(t, fleet.Of(2))
	var paths, moved []string
	for i := range 60 {
		paths = append(paths, fmt.Sprintf("/object/%d", i), fmt.Sprintf("/plain/%d", i))
	}
	for _, path := range paths {
		p.get(t, 0, path)
		if owner, _ := owners(t, fleet.Of(3), path); owner == 2 {
			moved = append(moved, path)
		}
	}
	f := fleet.Of(3)
	f.Previous = fleet.Of(2).Owners
	p.reconfigure(t, f)
	for round, want := range []string{"MISS", "HIT"} {
		for _, path := range moved {
			if got := how(p.get(t, 0, path)); got != "peer "+want {
				t.Errorf("round %d, %s: %s", round, path, got)
			}
			if n := p.requests(path); n != 1 {
				t.Errorf("round %d, %s: the origin was asked %d times", round, path, n)
			}
		}
	}
	// Each header of the first response must occur exactly once.
	r := p.get(t, 1, moved[0])
	for _, name := range []string{"Date", "Content-Length", "X-Cache", "X-Seen"} {
		if len(r.Header.Values(name)) != 1 {
			t.Errorf("%s: %s is %q", moved[0], name, r.Header.Values(name))
		}
	}
	if r.Header.Get("X-Accel-Expires")+r.Header.Get("Cache-Control") != "" {
		t.Errorf("a client sees %v", r.Header)
	}
	for round := range 2 {
		for _, path := range moved {
			// A renewed copy is fresh as long as any other.
			files := p.nginx[2].Cached("http://www.example.com"+path, "disk1", "disk2")
			fresh := validFor(t, files[0])
			if round == 0 && fresh != filledFor || round == 1 && fresh <= filledFor {
				t.Errorf("round %d, %s: the copy is fresh for %s", round, path, fresh)
			}
			if round == 0 {
				expireFiles(t, files)
			}
			p.get(t, 0, path)
			p.get(t, 0, path)
		}
		for _, path := range moved {
			// With a validator, the response to the second request has no body. This request may still be in progress, because
			// the copy may be served in the meantime. Or a stand-in has answered, because the owner is busy.
			becomes(t, "2 requests", func() string {
				if p.requests(path) == 1 {
					p.get(t, 0, path)
				}
				return fmt.Sprintf("%d requests", p.requests(path))
			})
			if n := p.renewals(path); strings.HasPrefix(path, "/object") && n != 1 {
				t.Errorf("round %d, %s: the origin answered %d times with 304", round, path, n)
			}
		}
	}
}

// validFor returns for how long the response in a cache file is fresh, counted from the time at which nginx received
// it.
func validFor(t *testing.T, file string) time.Duration {
	t.Helper()
	opened, err := os.Open(file)
	must(t, err)
	defer func() { _ = opened.Close() }()
	header, err := cachefile.Read(opened)
	must(t, err)
	return header.ValidUntil.Sub(header.Received)
}

// TestAnnouncedChange checks a pod that does not know yet that it owns a key. If the change was announced, the pod
// fills the object from the present owner that it knows, because it knows this owner as the previous owner too.
func TestAnnouncedChange(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3, fastSharded(""))
	before, after := fleet.Of(3), fleet.Of(2) // the last pod is to leave
	announced := before
	announced.Previous, after.Previous = before.Owners, before.Owners
	var moved []string
	for i := 0; len(moved) < 20; i++ {
		path := fmt.Sprintf("/object/%d", i)
		was, _ := owners(t, before, path)
		if owner, _ := owners(t, after, path); was == 2 && owner == 1 {
			moved = append(moved, path)
		}
	}
	for _, path := range moved {
		p.get(t, 0, path)
	}
	p.reconfigure(t, announced)
	p.take(t, 0, after)
	for _, path := range moved {
		if got := how(p.get(t, 0, path)); got != "peer MISS" {
			t.Errorf("%s: %s", path, got)
		}
		if n := p.requests(path); n != 1 {
			t.Errorf("%s: the origin was asked %d times", path, n)
		}
	}
	if got := how(p.get(t, 1, moved[0])); got != "peer HIT" { // still by the old plan
		t.Errorf("through the pod that does not know the change: %s", got)
	}
}

// TestFillWithoutThePreviousOwner checks that objects come from the origin if the previous owner of their keys is gone.
// If another previous owner has an expired copy of an object, this copy is renewed.
func TestFillWithoutThePreviousOwner(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3, fastSharded(""))
	p.reconfigure(t, fleet.Of(2))
	f := fleet.Of(3)
	f.Previous = fleet.Of(2).Owners
	path := func(prefix string, previous int) string {
		for i := 0; ; i++ {
			path := fmt.Sprintf("%s/%d", prefix, i)
			owner, _ := owners(t, fleet.Of(3), path)
			if before, _ := owners(t, fleet.Of(2), path); owner == 2 && before == previous {
				return path
			}
		}
	}
	expired, gone := path("/aged", 0), path("/object", 1)
	p.get(t, 0, expired)
	p.get(t, 0, gone)
	expire(t, p.nginx[0], "http://www.example.com"+expired, "disk1", "disk2")
	p.reconfigure(t, f)
	for _, pid := range p.nginx[1].Processes() {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	for _, path := range []string{expired, gone} {
		if got := how(p.get(t, 0, path)); got != "peer MISS" {
			t.Errorf("%s: %s", path, got)
		}
		if n := p.requests(path); n != 2 {
			t.Errorf("%s: the origin was asked %d times", path, n)
		}
	}
	if p.renewals(expired) != 1 || p.renewals(gone) != 0 {
		t.Errorf("the origin answered %d and %d times with 304", p.renewals(expired), p.renewals(gone))
	}
}

// TestHotObjectsOfOthers checks that the memory tier of each pod stores hot objects of other pods, without a request to
// the origin. It also checks that the tier renews these objects when they have expired.
func TestHotObjectsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPodsEdited(t, oftenRenewed, 3,
		sharded(nginxtest.MemoryTier("minUses: 2")))
	path := owned(t, "/hot", 2, 1, 1)[0]
	for pod := range p.nginx {
		becomes(t, "memory HIT", func() string { return how(p.get(t, pod, path)) })
	}
	key := "http://www.example.com" + path
	for range 2 {
		for pod, n := range p.nginx {
			expireInMemory(t, n, key)
			becomes(t, "memory HIT, fresh true", func() string {
				got := how(p.get(t, pod, path))
				if !strings.HasPrefix(got, "memory ") {
					t.Errorf("pod %d: %s", pod, got)
				}
				return fmt.Sprintf("%s, fresh %t", got, validFor(t, n.CachedIn(key, layout.MemoryTierCache)[0]) > 0)
			})
		}
	}
	if n := p.requests(path); n != 1 {
		t.Errorf("the origin was asked %d times", n)
	}
}

// manyTags is the size of a header in bytes. The header takes almost all of the 16 KiB for a response's headers.
const manyTags = 15_600

// TestManyTags checks that a response whose headers take almost 16 KiB is stored, passed on, and copied to memory.
func TestManyTags(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"whole": "", "in slices": "  cache: {slice: {size: 1Mi}}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, sharded(nginxtest.MemoryTier("minUses: 2")+policy))
			path := owned(t, "/tagged", 2, 1, 1)[0]
			got := []string{how(p.get(t, 0, path)), how(p.get(t, 0, path))}
			if diff := cmp.Diff([]string{"peer MISS", "peer HIT"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for pod := range p.nginx {
				becomes(t, "memory HIT", func() string { return how(p.get(t, pod, path)) })
			}
			if n := p.requests(path); n != 1 {
				t.Errorf("the origin was asked %d times", n)
			}
		})
	}
}

// TestRequestsOverHops checks that requests with ranges, conditions and methods keep their meaning on the way to
// another pod. The same applies to variants and statuses.
func TestRequestsOverHops(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3, fastSharded(""))
	path := owned(t, "/object", 2, 1, 1)[0]
	missing := owned(t, "/missing", 2, 1, 1)[0]
	p.get(t, 0, path)
	for name, tt := range map[string]struct {
		method, path string
		headers      []string
		status       int
		how, body    string
	}{
		"a range":           {"GET", path, []string{"Range: bytes=0-4"}, 206, "peer HIT", path[:5]},
		"a condition":       {"GET", path, []string{`If-None-Match: "1"`}, 304, "peer HIT", ""},
		"another condition": {"GET", path, []string{`If-None-Match: "2"`, "Range: bytes=1-2"}, 206, "peer HIT", path[1:3]},
		"HEAD":              {"HEAD", path, nil, 200, "peer HIT", ""},
		"credentials":       {"GET", path, []string{"Authorization: Basic eA=="}, 200, "none BYPASS", ""},
		"POST":              {"POST", path, nil, 200, "none BYPASS", ""},
		"a pod's own header": {
			"GET", path,
			[]string{"X-CacheNode-Ask: copy", "X-CacheNode-Fill: p1 http x", "X-CacheNode-State: ABSENT"},
			200, "peer HIT", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, body := ask(t, p.clients[0], tt.method, "http://127.0.0.1:8080"+tt.path, tt.headers...)
			if r.StatusCode != tt.status || how(r) != tt.how || tt.body != "" && body != tt.body {
				t.Errorf("status %d, %s, %.40q; want %d, %s", r.StatusCode, how(r), body, tt.status, tt.how)
			}
		})
	}
	for _, want := range []string{"peer MISS", "peer HIT", "peer HIT"} {
		r, _ := ask(t, p.clients[0], "GET", "http://127.0.0.1:8080"+missing)
		if r.StatusCode != 404 || how(r) != want {
			t.Errorf("a stored 404: status %d, %s, want %s", r.StatusCode, how(r), want)
		}
	}
	if n := p.requests(missing); n != 1 {
		t.Errorf("a stored 404: the origin was asked %d times", n)
	}
}
