package cache_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestNextRequestDuringRenewal checks that a renewal in the background does not hold up the client's connection: while
// the origin does not answer, the client gets the stale copy for each of its requests. The origin is asked once, and
// the copy is new afterwards.
func TestNextRequestDuringRenewal(t *testing.T) {
	t.Parallel()
	key := func(parts ...v1alpha1.KeyPart) func(*cache.Input) {
		return func(in *cache.Input) { in.Spec.Cache.Key = parts }
	}
	const common = "http://www.example.com/object"
	for name, test := range map[string]struct {
		path, key string
		change    func(*cache.Input)
		renewed   string
	}{
		"disks alone":   {"/object", common, func(*cache.Input) {}, ""},
		"a memory tier": {"/object", common, func(in *cache.Input) { inMemory(&in.Spec) }, ""},
		"a variant":     {"/object/varies", common + "/varies", func(*cache.Input) {}, ""},
		"304":           {"/object/valid", common + "/valid", func(*cache.Input) {}, "old"},
		"another key": {
			"/%6fbject/./a%20b%3Fc?x=%26", "GET http://www.example.com/object/a b?c ?x=%26",
			key(v1alpha1.KeyMethod, v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyURI, v1alpha1.KeyArgs), "",
		},
		"arguments left out": {"/object?x=1&utm_source=2", common + "?x=1", func(in *cache.Input) {
			in.Spec.Cache.Query = &v1alpha1.Query{Drop: []v1alpha1.NamePattern{"utm_*"}}
		}, ""},
		"a generation": {"/object", "generation=2 " + common, func(in *cache.Input) {
			in.Facts.Generations = map[string]int64{"disk1": 2, "disk2": 2, "disk3": 2}
		}, ""},
		"disks that have changed": {"/object", common, func(in *cache.Input) {
			in.Facts.Fleet.Disks = fleet.Disks{Members: []fleet.Disk{{Name: "disk1", Weight: 1024}}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hanging{arrived: make(chan struct{}), released: make(chan struct{})}
			n := nginxtest.New(t)
			in := decode(t, []byte(threeDisks))
			in.Spec.Cache.BackgroundUpdate, in.Spec.Cache.StaleWhileRevalidate = new(true), "2h"
			test.change(&in)
			config, err := cache.Render(in)
			must(t, err)
			n.Configure(config.Text, "disk1", "disk2", "disk3")
			n.Mkdir(layout.MemoryTierDir)
			n.Serve("127.0.0.1:9000", h)
			n.Start()
			get := asksOn(t, n, "GET "+test.path+" HTTP/1.1\r\nHost: www.example.com\r\nAccept-Encoding: gzip\r\n\r\n")
			get()
			expire(t, n, test.key)
			h.hangs.Store(true)
			for i := range 5 {
				if got := get(); got != "STALE old" && (i == 0 || got != "UPDATING old") {
					t.Errorf("request %d of the connection: %s", i+1, got)
				}
				becomes(t, "1", func() string { return fmt.Sprint(h.asked.Load()) })
			}
			other := asksOn(t, n, "GET "+test.path+" HTTP/1.1\r\nHost: www.example.com\r\nAccept-Encoding: gzip\r\n\r\n")
			for range 20 {
				if got := other(); !strings.HasSuffix(got, " old") {
					t.Errorf("during the renewal: %s", got)
				}
			}
			close(h.released)
			becomes(t, "HIT "+cmp.Or(test.renewed, "new"), get)
			if got := h.asked.Load(); got != 1 {
				t.Errorf("the origin was asked %d times", got)
			}
		})
	}
}

// TestNextRequestDuringRenewalOverHop is TestNextRequestDuringRenewal for an object of another pod: the renewal holds
// up no connection between pods. The first request may already find that the copy is being renewed (UPDATING). The
// reason is the lookup before this request: for nginx, the lookup renews the copy until the lookup itself ends. It ends
// only after its response was sent.
func TestNextRequestDuringRenewalOverHop(t *testing.T) {
	t.Parallel()
	const policy = "  cache: {backgroundUpdate: true, staleWhileRevalidate: 2h}\n  memoryTier: {enabled: false}\n"
	for name, yaml := range map[string]string{"hard disks": sharded(policy), "SSD": fastSharded(policy)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			path := ownedBySecond(t, "/object")
			p.get(t, 0, path)
			expire(t, p.nginx[1], "http://www.example.com"+path)
			get := asksOn(t, p.nginx[0], "GET "+path+" HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
			p.locked(func() { // the origin does not answer
				for i := range 20 {
					if got := get(); !strings.HasPrefix(got, "STALE ") && !strings.HasPrefix(got, "UPDATING ") {
						t.Errorf("request %d of the connection: %s", i+1, got)
					}
				}
			})
			becomes(t, "peer HIT", func() string { return how(p.get(t, 0, path)) })
			if got := p.requests(path); got != 2 {
				t.Errorf("the origin was asked %d times", got)
			}
		})
	}
}

// TestRenewalsByProtocol checks, with each version of HTTP, the request that renews an object. It gets the stale copy
// only within staleWhileRevalidate, and the origin's response otherwise. A body does not change that.
func TestRenewalsByProtocol(t *testing.T) {
	t.Parallel()
	for window, want := range map[string]string{"2h": "STALE old", "0s": "EXPIRED new"} {
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			var renewed atomic.Bool
			n := start(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(err)
				}
				_, _ = io.WriteString(w, map[bool]string{true: "new", false: "old"}[renewed.Load()]+string(body))
			}, func(spec *v1alpha1.CacheNodeSpec) {
				overTLS(spec)
				spec.Listen.TLS.HTTP3, spec.Service.HTTPSPort = true, new(int32(443))
				spec.Cache.BackgroundUpdate, spec.Cache.StaleWhileRevalidate = new(true), v1alpha1.Duration(window)
			})
			for name, over := range protocols(t, n) {
				path := "/" + strings.Map(func(r rune) rune {
					if r == '/' || r == ' ' {
						return '-'
					}
					return r
				}, name)
				client, url := over(path)
				get := func() string {
					r, body := ask(t, client, http.MethodGet, url)
					return r.Header.Get("X-Cache") + " " + body
				}
				renewed.Store(false)
				get()
				scheme, _, _ := strings.Cut(url, ":")
				expire(t, n, scheme+"://www.example.com"+path)
				renewed.Store(true)
				if name != "HTTP/1.1" && window == "2h" {
					if _, got := askWith(t, client, url, strings.NewReader("evil")); got != "old" {
						t.Errorf("%s, with a body: %q", name, got)
					}
				} else if got := get(); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
				becomes(t, "HIT new", get)
			}
		})
	}
}

// asksOn returns a function that sends a request over one connection, and returns a short description of the response.
func asksOn(t *testing.T, n *nginxtest.Nginx, request string) func() string {
	t.Helper()
	connection, err := n.Dial("127.0.0.1:8080")
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	must(t, connection.SetDeadline(await.Deadline()))
	reader := bufio.NewReader(connection)
	return func() string {
		t.Helper()
		_, err := io.WriteString(connection, request)
		must(t, err)
		r, err := http.ReadResponse(reader, nil)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		must(t, err)
		return r.Header.Get("X-Cache") + " " + string(body)
	}
}
