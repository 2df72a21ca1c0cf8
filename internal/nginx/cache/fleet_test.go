package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// pods are nginx instances that share keys. Each has its own network, and all have the same origin.
type pods struct {
	nginx     []*nginxtest.Nginx
	addresses map[int]string
	clients   []*http.Client
	yaml      string
	// change changes the input from which a pod's configuration is rendered; nil for no change. edit changes the rendered
	// configuration.
	change change
	edit   func(text string) string

	mutex sync.Mutex
	// answer answers a request in place of the origin, or returns false. The mutex is locked during the call.
	answer func(http.ResponseWriter, *http.Request) bool
	// asked counts the requests that the origin got, by path. answered304 counts those that it answered with 304.
	asked, answered304 map[string]int
}

// sharded returns a spec with two disks in pods that share keys. more is added to the spec.
func sharded(more string) string {
	return strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1) +
		"  routing: {mode: Sharded, tls: \"Off\"}\n" + more
}

// TestMinUsesOverHops checks that an object is stored at its second request, whether the requests come directly to its
// owner or over a hop.
func TestMinUsesOverHops(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy, slice string
		pods          [2]int // the pods that get the first two requests
	}{
		"whole":     {},
		"in slices": {", slice: {size: 1Mi}", "bytes=0-1048575 ", [2]int{}},

		"its owner's own clients":         {pods: [2]int{1, 1}},
		"the second over a hop":           {pods: [2]int{1, 0}},
		"the first over a hop":            {pods: [2]int{0, 1}},
		"slices, the second over a hop":   {", slice: {size: 1Mi}", "bytes=0-1048575 ", [2]int{1, 0}},
		"slices, the owner's own clients": {", slice: {size: 1Mi}", "bytes=0-1048575 ", [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, sharded("  cache: {minUses: 2"+tt.policy+"}\n  memoryTier: {enabled: false}\n"))
			path := ownedBySecond(t, "/object")
			var got, want []string
			for _, pod := range tt.pods {
				got = append(got, how(p.get(t, pod, path)))
				want = append(want, map[int]string{0: "peer MISS", 1: "none MISS"}[pod])
			}
			key := tt.slice + "http://www.example.com" + path
			p.nginx[1].Cached(key, "disk1", "disk2") // waits until nginx has stored it
			got = append(got, how(p.get(t, 0, path)))
			if diff := cmp.Diff(append(want, "peer HIT"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// ownedBySecond returns a path whose key the second of two pods owns.
func ownedBySecond(t *testing.T, prefix string) string {
	t.Helper()
	return ownedBy(t, 1, prefix)
}

// ownedBy returns a path whose key the given one of two pods owns.
func ownedBy(t *testing.T, pod int, prefix string) string {
	t.Helper()
	for i := 0; ; i++ {
		if path := fmt.Sprintf("%s/%d", prefix, i); ownerOf(t, fleet.Of(2), path) == pod {
			return path
		}
	}
}

// ownerOf returns the pod that owns the key of a path.
func ownerOf(t *testing.T, f fleet.Fleet, path string) int {
	t.Helper()
	owner, _ := owners(t, f, path)
	return owner
}

// change changes the input of a pod. write writes a file for its nginx.
type change func(pod int, in *cache.Input, write func(path string, content []byte))

// newPods starts the given number of pods. All of them own keys, and they wait for each other as long as a test may
// take.
func newPods(t *testing.T, count int, yaml string, changes ...change) *pods {
	t.Helper()
	return newPodsEdited(t, patient, count, yaml, changes...)
}

// newPodsEdited does the same as newPods, but edit changes the rendered configurations.
func newPodsEdited(
	t *testing.T, edit func(text string) string, count int, yaml string, changes ...change,
) *pods {
	t.Helper()
	p := &pods{yaml: yaml, edit: edit, asked: map[string]int{}, answered304: map[string]int{}}
	for _, c := range changes {
		p.change = c
	}
	for range count {
		p.nginx = append(p.nginx, nginxtest.New(t))
	}
	p.addresses = nginxtest.Connect(t, p.nginx...)
	for i, n := range p.nginx {
		n.Serve("127.0.0.1:9000", http.HandlerFunc(p.origin))
		n.Mkdir(layout.MemoryTierDir)
		p.configure(t, i, fleet.Of(count))
		n.Start()
		p.clients = append(p.clients, n.Client())
	}
	return p
}

// render returns the configuration of a pod.
func (p *pods) render(t *testing.T, pod int, f fleet.Fleet) cache.Config {
	t.Helper()
	in := decode(t, []byte(p.yaml))
	in.Facts.Fleet = cache.Fleet{Fleet: f, Self: pod}
	if p.change != nil {
		p.change(pod, &in, func(path string, content []byte) {
			must(t, os.WriteFile(p.nginx[pod].Root+path, content, 0o644))
		})
	}
	config, err := cache.Render(in)
	must(t, err)
	config.Text = nginxtest.WithAddresses(config.Text, p.addresses)
	return config
}

// configure writes the configuration of a pod.
func (p *pods) configure(t *testing.T, pod int, f fleet.Fleet) {
	t.Helper()
	config := p.render(t, pod, f)
	p.nginx[pod].Configure(p.edit(config.Text), disks(config.Text)...)
}

// origin answers with the path, and counts requests. Its responses have validators, except for paths that begin with
// /plain.
func (p *pods) origin(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/reflect") {
		reflect(w, r)
		return
	}
	p.locked(func() { p.asked[r.URL.Path]++ })
	isSlowRenewal := strings.HasSuffix(r.URL.Path, "/slow") && r.Header.Get("If-None-Match") != ""
	if strings.HasPrefix(r.URL.Path, "/slow") || isSlowRenewal {
		p.outlast()
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.answer != nil && p.answer(w, r) {
		return
	}
	w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s for %s ask=%q state=%q fill=%q",
		r.Host, r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-For"),
		r.Header.Get("X-CacheNode-Ask"), r.Header.Get("X-CacheNode-State"), r.Header.Get("X-CacheNode-Fill")))
	if strings.HasPrefix(r.URL.Path, "/tagged") {
		w.Header().Set("Surrogate-Key", strings.Repeat("tag ", manyTags/4))
	}
	if strings.HasPrefix(r.URL.Path, "/missing") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/private") { // the second response is for one client only
		w.Header().Set("Cache-Control", "max-age=60")
		if p.asked[r.URL.Path] > 1 {
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("X-Accel-Expires", "0")
		}
	} else if !strings.HasPrefix(r.URL.Path, "/plain") {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			p.answered304[r.URL.Path]++
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/large") {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(large(r.URL.Path)))
		return
	}
	if strings.HasPrefix(r.URL.Path, "/unranged") { // the stored whole object takes the place of the first slice
		w.Header().Set("Content-Length", fmt.Sprint(len(large(r.URL.Path))))
		_, _ = io.WriteString(w, large(r.URL.Path))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(r.URL.Path)+3000))
	_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(".", 3000))
}

// outlast returns after nginx has closed a connection on which no request came. With a configuration from [hasty], this
// takes longer than nginx waits for a pod.
func (p *pods) outlast() {
	connection, err := p.nginx[0].Dial(silentAddress)
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, connection)
	_ = connection.Close()
}

// answers sets the function that answers in place of the origin.
func (p *pods) answers(answer func(http.ResponseWriter, *http.Request) bool) {
	p.locked(func() { p.answer = answer })
}

// locked runs a function while the mutex is locked. The function may use the data that answer uses.
func (p *pods) locked(f func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	f()
}

// large returns the body of an object that is stored in three slices of 1 MiB.
func large(path string) string { return strings.Repeat(path+".", (5<<19)/len(path)) }

// requests returns how many requests the origin got for a path.
func (p *pods) requests(path string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.asked[path]
}

// renewals returns how many requests for a path the origin answered with 304.
func (p *pods) renewals(path string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.answered304[path]
}

// get fetches a path from a pod, and checks status and body.
func (p *pods) get(t *testing.T, pod int, path string, headers ...string) *http.Response {
	t.Helper()
	r, body := ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path, headers...)
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(body, path+".") || len(body) != len(path)+3000 {
		t.Fatalf("pod %d, %s: status %d, %d bytes", pod, path, r.StatusCode, len(body))
	}
	if n := len(r.Header.Values("Accept-Ranges")); n > 1 {
		t.Errorf("pod %d, %s (%s): Accept-Ranges comes %d times", pod, path, how(r), n)
	}
	return r
}

// locators contains the locators of the fleets that tests have used. The key is the text of the fleet.
var locators sync.Map

// owners returns the owner of a path and its stand-in.
func owners(t *testing.T, f fleet.Fleet, path string) (owner, standIn int) {
	t.Helper()
	return holders(t, f, "http://www.example.com"+path)
}

// holders returns the same for the key of an object.
func holders(t *testing.T, f fleet.Fleet, key string) (owner, standIn int) {
	t.Helper()
	locator, _ := locators.LoadOrStore(f.String(), sync.OnceValue(f.Locator))
	owner, standIn, _, ok := locator.(func() fleet.Locator)().Holders(key)
	if !ok {
		t.Fatal("nobody owns keys")
	}
	return owner, standIn
}

// how returns X-Cache-Hop and X-Cache, which show how a response came about.
func how(r *http.Response) string { return r.Header.Get("X-Cache-Hop") + " " + r.Header.Get("X-Cache") }

// files counts the cache files of all pods.
func (p *pods) files(t *testing.T) (n int) {
	t.Helper()
	for _, pod := range p.nginx {
		for _, disk := range []string{"disk1", "disk2"} {
			if _, err := os.Stat(pod.Root + layout.CacheDir(disk)); err == nil {
				n += countFiles(t, pod.Root+layout.CacheDir(disk))
			}
		}
	}
	return n
}

// TestPodsShareKeys checks that the owner of a key answers through any pod, that the origin is asked once, and that the
// object is on one disk.
func TestPodsShareKeys(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"hard disks":    sharded(""),
		"NVMe":          strings.ReplaceAll(sharded(""), "size: 1Gi", "size: 1Gi, media: NVMe"),
		"a memory tier": sharded(nginxtest.MemoryTier("minUses: 100")),
		"slices":        sharded("  cache: {slice: {size: 1Mi}}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 3, yaml)
			hops := map[string]int{}
			for i := range 60 {
				path := fmt.Sprintf("/object/%d", i)
				owner, _ := owners(t, fleet.Of(3), path)
				for pod := range p.nginx {
					r := p.get(t, pod, path)
					hop, cached := "peer", "HIT"
					if pod == owner {
						hop = "none"
					}
					if pod == 0 {
						cached = "MISS"
					}
					if got := how(r); got != hop+" "+cached {
						t.Errorf("%s of pod %d through pod %d: %s, want %s %s", path, owner, pod, got, hop, cached)
					}
					if disk := r.Header.Get("X-Cache-Disk"); disk != "disk1" && disk != "disk2" {
						t.Errorf("%s: X-Cache-Disk is %q", path, disk)
					}
					for header := range r.Header {
						if strings.HasPrefix(header, "X-Cachenode") || strings.HasPrefix(header, "X-Accel") {
							t.Errorf("%s: a client sees %s: %s", path, header, r.Header.Get(header))
						}
					}
					hops[hop]++
				}
				if n := p.requests(path); n != 1 && name != "slices" {
					t.Errorf("%s: the origin was asked %d times", path, n)
				}
			}
			if hops["peer"] != 120 || hops["none"] != 60 {
				t.Errorf("hops: %v", hops)
			}
			if files := p.files(t); files != 60 && name != "slices" {
				t.Errorf("%d files for 60 objects", files)
			}
			const host = "www.example.com"
			want := host + " " + host + ` http for 127.0.0.1 ask="" state="" fill=""`
			if seen := p.get(t, 1, "/object/0").Header.Get("X-Seen"); seen != want {
				t.Errorf("the origin saw %s, want %s", seen, want)
			}
		})
	}
}
