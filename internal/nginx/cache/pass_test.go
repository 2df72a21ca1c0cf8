package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// ways returns configurations. In each of them, a request takes a different path through nginx to the origin.
func ways(policy string) map[string]string {
	cache := func(more string) string { return "  cache: {" + strings.Trim(policy+", "+more, ", ") + "}\n" }
	return map[string]string{
		"hard disks":    sharded(cache("")),
		"SSD":           fastSharded(cache("")),
		"a memory tier": sharded(nginxtest.MemoryTier("minUses: 1") + cache("")),
		"slices":        sharded(cache("slice: {size: 1Mi}")),
	}
}

// TestBypassIsAPass checks that a request that bypasses the caches reaches the origin unchanged and only once. Its
// method, its range and its conditions stay the same, and the client gets the origin's answer to this request.
func TestBypassIsAPass(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("bypass: {cookies: [session]}") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			var got []string
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				line := r.Method
				for _, header := range []string{"Range", "If-None-Match", "If-Match", "If-Modified-Since", "If-Range"} {
					if value := r.Header.Get(header); value != "" {
						line += " " + header + "=" + value
					}
				}
				got = append(got, line)
				w.WriteHeader(http.StatusTeapot)
				return true
			})
			const credentials, cookie = "Authorization: Bearer x", "Cookie: session=1"
			for _, tt := range []struct {
				method  string
				headers []string
				want    string
			}{
				{"HEAD", []string{credentials}, "HEAD"},
				{"GET", []string{credentials, "Range: bytes=5-9"}, "GET Range=bytes=5-9"},
				{"GET", []string{cookie, "Range: bytes=5-9", `If-Range: "1"`}, `GET Range=bytes=5-9 If-Range="1"`},
				{"GET", []string{cookie, `If-None-Match: "1"`}, `GET If-None-Match="1"`},
				{"GET", []string{credentials, `If-Match: "2"`}, `GET If-Match="2"`},
				{"OPTIONS", []string{"Range: bytes=0-0"}, "OPTIONS Range=bytes=0-0"},
				{"POST", []string{"Range: bytes=0-0"}, "POST Range=bytes=0-0"},
				{"DELETE", []string{`If-Match: "2"`}, `DELETE If-Match="2"`},
			} {
				for pod := range p.nginx {
					p.locked(func() { got = nil })
					r, _ := ask(t, p.clients[pod], tt.method, "http://127.0.0.1:8080/object", tt.headers...)
					if r.StatusCode != http.StatusTeapot || r.Header.Get("X-Cache") != "BYPASS" {
						t.Errorf("%s %q of pod %d: %d, %s", tt.method, tt.headers, pod, r.StatusCode, how(r))
					}
					p.locked(func() {
						if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
							t.Errorf("%s %q of pod %d (-want +got):\n%s", tt.method, tt.headers, pod, diff)
						}
					})
				}
			}
			if files := p.files(t); files != 0 {
				t.Errorf("%d files are stored", files)
			}
		})
	}
}

// TestHead checks that a stored object answers a HEAD, unless the method is part of the key. If the object is not
// stored, the HEAD reaches the origin unchanged, and nothing is stored.
func TestHead(t *testing.T) {
	t.Parallel()
	all := ways("")
	all["Method in the key"] = sharded("  cache: {key: [Method, Scheme, Host, RequestURI]}\n")
	for name, yaml := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			methods := map[string][]string{}
			p.answers(func(_ http.ResponseWriter, r *http.Request) bool {
				methods[r.URL.Path] = append(methods[r.URL.Path], r.Method)
				return false
			})
			for owner := range p.nginx {
				path := "/object/0"
				for i := 1; ownerOf(t, fleet.Of(2), path) != owner; i++ {
					path = fmt.Sprintf("/object/%d", i)
				}
				url := "http://127.0.0.1:8080" + path
				length := int64(len(path) + 3000)
				for pod, client := range p.clients {
					r, _ := ask(t, client, http.MethodHead, url)
					if r.StatusCode != http.StatusOK || r.ContentLength != length || r.Header.Get("X-Cache") != "BYPASS" {
						t.Errorf("pod %d, owner %d: %d, %d bytes, %s", pod, owner, r.StatusCode, r.ContentLength, how(r))
					}
				}
				p.locked(func() {
					if want := []string{"HEAD", "HEAD"}; !slices.Equal(methods[path], want) || p.files(t) != owner {
						t.Errorf("owner %d: the origin got %q, and %d files are stored", owner, methods[path], p.files(t))
					}
				})
				p.get(t, 0, path)
				key := map[string]string{"slices": "bytes=0-1048575 ", "Method in the key": "GET "}[name]
				if name == "Method in the key" {
					owner, _, _, _ = fleet.Of(2).Holders(key + "http://www.example.com" + path)
				}
				p.nginx[owner].Cached(key+"http://www.example.com"+path, "disk1", "disk2")
				for pod, client := range p.clients {
					r, _ := ask(t, client, http.MethodHead, url)
					got := r.Header.Get("X-Cache")
					if want := got == "HIT"; want == (name == "Method in the key") || r.ContentLength != length {
						t.Errorf("pod %d, owner %d, when it is stored: %s, %d bytes", pod, owner, how(r), r.ContentLength)
					}
				}
			}
		})
	}
}

// TestPartsThatNobodyAskedFor checks that a partial response to a request without a range is never stored.
func TestPartsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Cache-Control", "max-age=600")
				w.Header().Set("ETag", `"1"`)
				status := http.StatusOK
				if !strings.Contains(r.URL.Path, "only-says") {
					status = http.StatusPartialContent
				}
				if !strings.Contains(r.URL.Path, "only-is") {
					w.Header().Set("Content-Range", "bytes 5-9/100")
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte("56789"))
				return true
			})
			paths := []string{"/both", "/only-is", "/only-says"}
			if name == "slices" { // the request for a slice has a range, so a partial response is expected
				paths = paths[2:]
			}
			for _, path := range paths {
				for range 3 {
					for _, client := range p.clients {
						if r, body := ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+path); r.Header.Get("X-Cache") == "HIT" {
							t.Errorf("%s: %s, %d, %q", path, how(r), r.StatusCode, body)
						}
					}
				}
			}
			if files := p.files(t); files != 0 {
				t.Errorf("%d files are stored", files)
			}
		})
	}
}

// TestHeadersComeOnce checks that a 416 response contains no header twice, whichever part of nginx made the response.
func TestHeadersComeOnce(t *testing.T) {
	t.Parallel()
	all := ways("")
	all["no memory tier, Local"] = threeDisks + "  headers: {response: {set: [{name: X-Own, value: a}]}}\n"
	for name, yaml := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			for i := range 8 {
				for range 3 {
					p.get(t, 0, fmt.Sprintf("/object/%d", i))
				}
				for pod, client := range p.clients {
					r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:8080/object/%d", i), "Range: bytes=99999999-")
					if r.StatusCode != http.StatusRequestedRangeNotSatisfiable || r.Header.Get("X-Cache") == "" {
						t.Errorf("pod %d: %d, %v", pod, r.StatusCode, r.Header)
					}
					for header, values := range r.Header {
						if len(values) > 1 || strings.Contains(values[0], "HIT, ") {
							t.Errorf("pod %d, %s: %s: %q", pod, how(r), header, values)
						}
					}
				}
			}
		})
	}
}

// TestPostOnce checks that nginx does not repeat a request that may have changed something, even if the origin does not
// answer.
func TestPostOnce(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			asked := 0
			p.answers(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/before" { // leaves a connection open, so nginx could repeat a request
					return true
				}
				asked++
				panic(http.ErrAbortHandler)
			})
			for pod, client := range p.clients {
				for _, method := range []string{"POST", "PATCH", "LOCK", "MKCOL", "ANY-OTHER"} {
					p.locked(func() { asked = 0 })
					ask(t, client, method, "http://127.0.0.1:8080/before")
					r, _ := ask(t, client, method, "http://127.0.0.1:8080/object")
					p.locked(func() {
						if r.StatusCode != http.StatusBadGateway || asked != 1 {
							t.Errorf("pod %d, %s: %d, and the origin was asked %d times", pod, method, r.StatusCode, asked)
						}
					})
				}
			}
		})
	}
}

// TestCachedPost checks that a POST reaches the origin once and complete, if the spec stores the responses to POST. It
// checks this while keys move and when the origin fails.
func TestCachedPost(t *testing.T) {
	t.Parallel()
	const policy = "  cache: {methods: [GET, HEAD, POST], key: [Method, Scheme, Host, RequestURI]}\n"
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	for name, tt := range map[string]struct {
		yaml  string
		fleet fleet.Fleet
	}{
		"another disk": {threeDisks + policy, aDiskMore()}, "another pod": {sharded(policy), aPodMore()},
		"at rest": {two + policy, fleet.Of(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, tt.yaml)
			p.take(t, 0, tt.fleet)
			var lengths []int64
			fails := false
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				n, _ := io.Copy(io.Discard, r.Body)
				lengths = append(lengths, n)
				if fails {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Cache-Control", "max-age=600, must-revalidate")
				return true
			})
			post := func(path string, failing bool) (status int, got []int64) {
				p.locked(func() { lengths, fails = nil, failing })
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					"http://127.0.0.1:8080"+path, strings.NewReader(strings.Repeat("x", 200_000)))
				must(t, err)
				request.Host = "www.example.com"
				r, err := p.clients[0].Do(request)
				must(t, err)
				_ = r.Body.Close()
				p.locked(func() { got = lengths })
				return r.StatusCode, got
			}
			for i := range 12 {
				path := fmt.Sprintf("/post/%d", i)
				if status, got := post(path, false); status != http.StatusOK || !slices.Equal(got, []int64{200_000}) {
					t.Errorf("%s: %d, and the origin got %v bytes", path, status, got)
				}
				for _, file := range p.nginx[0].Cached("POST http://www.example.com"+path, "disk1", "disk2", "disk3") {
					must(t, cachefile.Expire(file, nginxtest.Now().Add(-time.Hour)))
				}
				if status, got := post(path, true); status != http.StatusBadGateway || !slices.Equal(got, []int64{200_000}) {
					t.Errorf("%s, expired: %d, and the origin got %v bytes", path, status, got)
				}
			}
		})
	}
}
