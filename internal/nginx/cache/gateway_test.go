package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestGatewayIsTransparent checks which parts of a response reach a client through the gateway, and which parts of a
// request reach the origin.
func TestGatewayIsTransparent(t *testing.T) {
	t.Parallel()
	var request atomic.Pointer[http.Request]
	headers := map[string]string{}
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		request.Store(r)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, "text")
	})
	const minute = "max-age=60"
	both := func(targeted, control string) map[string]string {
		return map[string]string{"CDN-Cache-Control": targeted, "Cache-Control": control}
	}
	for name, tt := range map[string]struct {
		headers map[string]string
		control []string // the Cache-Control that the client gets
		second  string
	}{
		"no Cache-Control":        {nil, nil, "HIT"},
		"Cache-Control":           {map[string]string{"Cache-Control": "max-age=60"}, []string{"max-age=60"}, "HIT"},
		"private":                 {map[string]string{"Cache-Control": "private"}, []string{"private"}, "MISS"},
		"CDN-Cache-Control":       {both(minute, "no-store"), []string{"no-store"}, "HIT"},
		"CDN: no-store":           {both("no-store", minute), []string{minute}, "MISS"},
		"CDN: no structured text": {both(minute+", &&", "no-store"), []string{"no-store"}, "MISS"},
		"Set-Cookie":              {map[string]string{"Set-Cookie": "a=b"}, nil, "MISS"},
		"X-Accel-Expires":         {map[string]string{"X-Accel-Expires": "0"}, nil, "MISS"},
		"X-Accel-Expires, private": {
			map[string]string{"X-Accel-Expires": "60", "Cache-Control": "Private"}, []string{"Private"}, "MISS",
		},
		"X-Accel-Expires, no-store": {
			map[string]string{"X-Accel-Expires": "60", "Cache-Control": "no-store"}, []string{"no-store"}, "MISS",
		},
		"X-Accel-Expires, no-cache": {
			map[string]string{"X-Accel-Expires": "60", "Cache-Control": "no-cache"}, []string{"no-cache"}, "HIT",
		},
		"X-Accel-Expires, private for others": {
			map[string]string{"X-Accel-Expires": "60", "CDN-Cache-Control": minute, "Cache-Control": "private"},
			[]string{"private"},
			"HIT",
		},
		"a forged header": {
			map[string]string{"X-CacheNode-Cache-Control": "forged", "X-CacheNode-Shared": "HIT"}, nil, "HIT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			headers = tt.headers
			url := example + "/" + strings.NewReplacer(" ", "", ":", "").Replace(name)
			for _, want := range []string{"MISS", tt.second} {
				r, _ := ask(t, client, http.MethodGet, url, "X-Forwarded-For: 192.0.2.1")
				if got := r.Header.Get("X-Cache"); got != want {
					t.Errorf("X-Cache %s, want %s", got, want)
				}
				if diff := cmp.Diff(tt.control, r.Header.Values("Cache-Control")); diff != "" {
					t.Errorf("Cache-Control (-want +got)\n%s", diff)
				}
				if got := r.Header.Get("Set-Cookie"); got != headers["Set-Cookie"] {
					t.Errorf("Set-Cookie is %q", got)
				}
				for name := range r.Header {
					if strings.HasPrefix(name, "X-Cachenode") || strings.HasPrefix(name, "X-Accel") {
						t.Errorf("the client gets %s: %q", name, r.Header.Get(name))
					}
				}
			}
			got := request.Load()
			if forwarded := got.Header.Get("X-Forwarded-For"); forwarded != "192.0.2.1, 127.0.0.1" {
				t.Errorf("X-Forwarded-For is %q", forwarded)
			}
			for name := range got.Header {
				if strings.HasPrefix(name, "X-Cachenode") {
					t.Errorf("the origin gets %s: %q", name, got.Header.Get(name))
				}
			}
		})
	}
}

// TestExpiredIsRevalidated checks that the conditions of the cache reach the origin through the gateway, and that a 304
// renews the object.
func TestExpiredIsRevalidated(t *testing.T) {
	t.Parallel()
	var conditions atomic.Int64
	n := startEdited(t, patientRenewals, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("ETag", `"a"`)
		if r.Header.Get("If-None-Match") == `"a"` {
			conditions.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = fmt.Fprint(w, "text")
	})
	client := n.Client() // on one connection, so one worker answers one request after another
	var got []string
	for round := range 3 {
		for range 2 {
			r, body := ask(t, client, http.MethodGet, example)
			got = append(got, r.Header.Get("X-Cache")+" "+body+" "+r.Header.Get("Cache-Control"))
		}
		expire(t, n, "http://www.example.com/object")
		if round == 1 { // the gateway keeps the answer for a second
			expireKept(t, n, "/object", `"a"`)
		}
	}
	const same = " text max-age=60"
	want := []string{"MISS" + same, "HIT" + same, "REVALIDATED" + same, "HIT" + same, "REVALIDATED" + same, "HIT" + same}
	if diff := cmp.Diff(want, got); diff != "" || conditions.Load() != 2 {
		t.Errorf("%d conditions (-want +got)\n%s", conditions.Load(), diff)
	}
}

// TestRetriesCountOnce checks that the origin gets only the gateway's attempts, because no other part of nginx tries
// again.
func TestRetriesCountOnce(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	fails := func(http.ResponseWriter, *http.Request) {
		attempts.Add(1)
		panic(http.ErrAbortHandler)
	}
	const servers = 4
	n := start(t, fails, func(spec *v1alpha1.CacheNodeSpec) {
		for i := range servers - 1 {
			spec.Origin.Servers = append(spec.Origin.Servers, v1alpha1.OriginServer{
				Host: new("127.0.0.1"), Port: new(int32(9001 + i)),
			})
		}
		spec.Origin.Retries.Tries = new(int32(3))
	})
	for i := range servers - 1 {
		n.Serve(fmt.Sprintf("127.0.0.1:%d", 9001+i), http.HandlerFunc(fails))
	}
	r, _ := ask(t, n.Client(), http.MethodGet, example)
	const want = 3 + 5 // 3 attempts at servers that have not failed, then 5 at all servers
	if r.StatusCode != http.StatusBadGateway || attempts.Load() != want {
		t.Errorf("status %d after %d attempts, want 502 after %d", r.StatusCode, attempts.Load(), want)
	}
}

// TestOwnResponsesAreNotShared checks that each client gets its own response if the origin says that a response is for
// one client only. The result is the same for a client that has waited for the first response.
func TestOwnResponsesAreNotShared(t *testing.T) {
	t.Parallel()
	for _, own := range []string{
		"X-Accel-Expires: 0", "X-Accel-Expires: 00", "Cache-Control: private", "Vary: *",
		"Set-Cookie: a=b", "Expires: 0", "Expires: Thu, 01 Jan 1970 00:00:00 GMT", "Cache-Control: max-age=-1",
		`Cache-Control: max-age="0"`, "Cache-Control: public, s-maxage=0",
	} {
		header, value, _ := strings.Cut(own, ": ")
		t.Run(own, func(t *testing.T) {
			t.Parallel()
			var count atomic.Int64
			n := startEdited(t, patientRenewals, func(w http.ResponseWriter, _ *http.Request) {
				if n := count.Add(1); n > 1 {
					w.Header().Set(header, value)
					_, _ = fmt.Fprint(w, n)
					return
				}
				w.Header().Set("Cache-Control", "max-age=60, must-revalidate")
				_, _ = io.WriteString(w, "1")
			})
			client := n.Client()
			ask(t, client, http.MethodGet, example)
			expire(t, n, "http://www.example.com/object")
			var clients sync.WaitGroup
			var bodies sync.Map
			const all = 20
			for range all {
				clients.Go(func() {
					_, body := ask(t, client, http.MethodGet, example)
					if _, taken := bodies.LoadOrStore(body, true); taken {
						t.Errorf("two clients got response %s", body)
					}
				})
			}
			clients.Wait()
			if got := count.Load(); got != all+1 {
				t.Errorf("the origin was asked %d times by %d requests", got, all+1)
			}
		})
	}
}

// TestNotFoundReplacesAnObject checks that a status of cache.valid replaces an expired object, and is stored itself.
func TestNotFoundReplacesAnObject(t *testing.T) {
	t.Parallel()
	s := startScripted(t)
	s.store(t, "/object", "max-age=60")
	s.say("/object", "404")
	for _, want := range []string{"404 EXPIRED", "404 HIT"} {
		r, _ := s.get(t, "/object")
		if got := fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Cache")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestStrictObjectsStayOnDisk checks that the memory tier copies no object that may not be served stale, because a copy
// can outlive the object's freshness.
func TestStrictObjectsStayOnDisk(t *testing.T) {
	t.Parallel()
	n, config := threeDisksWithTier(t, "minUses: 1")
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", r.URL.Query().Get("control"))
		_, _ = io.WriteString(w, "text")
	}))
	n.Start()
	client := n.Client()
	get := func(control string) string {
		r, _ := ask(t, client, http.MethodGet, example+"?control="+control)
		if got := r.Header.Get("Cache-Control"); got != control {
			t.Errorf("from %s, Cache-Control is %q, want %q", place(r), got, control)
		}
		return place(r)
	}
	strict := []string{"max-age=60,must-revalidate", "max-age=60,proxy-revalidate", "s-maxage=60"}
	becomes(t, "HIT memory", func() string {
		for _, control := range strict {
			if got := get(control); strings.HasSuffix(got, "memory") {
				t.Fatalf("%s comes from %s", control, got)
			}
		}
		return get("max-age=60") // requested equally often
	})
}

// TestAllDisksFailed checks that nginx serves from the origin when there is no disk, and thus no gateway.
func TestAllDisksFailed(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	in.Facts.Failed = []string{"disk1", "disk2", "disk3"}
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text)
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Cachenode") {
				t.Errorf("the origin gets %s", name)
			}
		}
		_, _ = io.WriteString(w, "text")
	}))
	n.Start()
	if r, body := ask(t, n.Client(), http.MethodGet, example); r.StatusCode != http.StatusOK || body != "text" {
		t.Errorf("status %d, %q", r.StatusCode, body)
	}
}
