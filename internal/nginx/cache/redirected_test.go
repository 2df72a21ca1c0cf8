package cache_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// statusesOf sends requests over one connection and returns the status of each response. If a response is missing, it
// returns the error instead.
func statusesOf(t *testing.T, n *nginxtest.Nginx, requests ...string) (statuses []string) {
	t.Helper()
	connection, err := n.Dial("127.0.0.1:8080")
	must(t, err)
	defer func() { _ = connection.Close() }()
	must(t, connection.SetDeadline(await.Deadline()))
	reader := bufio.NewReader(connection)
	for _, request := range requests {
		method, _, _ := strings.Cut(request, " ")
		_, err := io.WriteString(connection, strings.ReplaceAll(request, "\n", "\r\n")+"\r\n\r\n")
		must(t, err)
		r, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return append(statuses, err.Error())
		}
		_, _ = io.Copy(io.Discard, r.Body)
		statuses = append(statuses, r.Status+" "+r.Header.Get("Cache-Control"))
	}
	return statuses
}

// TestNoResponse checks that an origin's answer with a status below 200 never reaches a client as the response. After a
// 101, the client would be connected directly to the gateway. nginx must still validate the next request on the same
// connection.
func TestNoResponse(t *testing.T) {
	t.Parallel()
	const noDisk = "no disk in use"
	all := ways("")
	all[noDisk] = all["hard disks"]
	for name, yaml := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml, func(_ int, in *cache.Input, _ func(string, []byte)) {
				for _, d := range in.Spec.Disks {
					if name == noDisk {
						in.Facts.Failed = append(in.Facts.Failed, d.Name)
					}
				}
			})
			var sent string
			p.answers(func(w http.ResponseWriter, _ *http.Request) bool {
				connection, _, err := w.(http.Hijacker).Hijack()
				must(t, err)
				_, _ = io.WriteString(connection, "HTTP/1.1 "+sent+"\r\n\r\n")
				_ = connection.Close()
				return true
			})
			const upgrade = "\nConnection: upgrade\nUpgrade: websocket"
			path := ownedBySecond(t, "/page")
			for _, status := range []string{
				"101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket", "100 Continue", "102 Processing",
				"199 What\r\nCache-Control: max-age=60\r\nContent-Length: 0",
			} {
				p.locked(func() { sent = status })
				for pod := range p.nginx {
					for what, request := range map[string]string{
						"GET":                 "GET " + path + " HTTP/1.1\nHost: www.example.com",
						"GET and an upgrade":  "GET " + path + " HTTP/1.1\nHost: www.example.com" + upgrade,
						"HEAD and an upgrade": "HEAD " + path + " HTTP/1.1\nHost: www.example.com" + upgrade,
						"a pass":              "GET " + path + " HTTP/1.1\nHost: www.example.com\nAuthorization: a" + upgrade,
						"POST":                "POST " + path + " HTTP/1.1\nHost: www.example.com\nContent-Length: 0" + upgrade,
						"GET with a body":     "GET " + path + " HTTP/1.1\nHost: www.example.com\nContent-Length: 1" + upgrade + "\n\na",
						"a range":             "GET " + path + " HTTP/1.1\nHost: www.example.com\nRange: bytes=0-9" + upgrade,
					} {
						request = strings.TrimSuffix(request, "\r\n\r\n")
						got := statusesOf(t, p.nginx[pod], request, "GET / HTTP/1.1\nHost: other.example.com\nX-CacheNode-State: FETCH")
						want := []string{"502 Bad Gateway ", "421 Misdirected Request "}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("pod %d, %.3s, %s (-want +got):\n%s", pod, status, what, diff)
						}
					}
				}
			}
		})
	}
}

// redirectsOne is an origin that redirects clients with a cookie to an object. Clients without the cookie may not get
// this object.
func redirectsOne(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.URL.Path == "/secret":
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, "secret")
	case r.Header.Get("Cookie") == "":
		w.Header().Set("Cache-Control", "private, no-store")
		w.WriteHeader(http.StatusForbidden)
	default:
		w.Header().Set("X-Accel-Redirect", "/secret")
	}
	return true
}

// isForOne checks that a client with a cookie gets the object, and not from a cache. A client without the cookie must
// not get it.
func isForOne(t *testing.T, p *pods, pod int, path string) {
	t.Helper()
	r, body := ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path, "Cookie: user=a")
	if body != "secret" || r.Header.Get("X-Cache") == "HIT" {
		t.Errorf("pod %d, %s: %s, %s: %q", pod, path, r.Status, how(r), body)
	}
	r, body = ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path)
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("pod %d, %s: who may not have it gets %s, %s: %q", pod, path, r.Status, how(r), body)
	}
}

// TestOriginRedirects checks responses to which the origin redirects with X-Accel-Redirect. nginx neither stores them
// nor serves them from a cache, even if they replace an expired object. The origin decides for each client.
func TestOriginRedirects(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(redirectsOne)
			path := ownedBySecond(t, "/download")
			for range 2 {
				for pod := range p.nginx {
					isForOne(t, p, pod, path)
				}
			}
			if n := p.files(t); n != 0 {
				t.Errorf("%d files are stored", n)
			}
			for pod := range p.nginx {
				expired := ownedBySecond(t, fmt.Sprintf("/expired-%d", pod))
				p.answers(func(w http.ResponseWriter, r *http.Request) bool {
					w.Header().Set("ETag", `"0"`)
					w.Header().Set("Cache-Control", "must-revalidate")
					w.Header().Set("X-Accel-Expires", fmt.Sprintf("@%d", nginxtest.Now().Unix()-1)) // it is stored as expired
					http.ServeContent(w, r, "", time.Time{}, strings.NewReader("public"))
					return true
				})
				ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+expired)
				p.answers(redirectsOne)
				isForOne(t, p, pod, expired)
			}
		})
	}
}

// TestOriginRedirectsFills checks the same as TestOriginRedirects for objects whose keys have moved to another disk or
// pod.
func TestOriginRedirectsFills(t *testing.T) {
	t.Parallel()
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	for name, tt := range map[string]struct {
		before, after string
		fleet         fleet.Fleet
	}{
		"another disk": {two, threeDisks, aDiskMore()}, "another pod": {fastSharded(""), fastSharded(""), aPodMore()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, tt.before)
			p.reconfigure(t, fleet.Of(1))
			var paths []string
			for i := range 6 { // some of them move
				paths = append(paths, fmt.Sprintf("/object/%d", i))
				p.get(t, 0, paths[i])
				expire(t, p.nginx[0], "http://www.example.com"+paths[i])
			}
			p.answers(redirectsOne)
			p.yaml = tt.after
			p.reconfigure(t, tt.fleet)
			for _, path := range paths {
				isForOne(t, p, 0, path)
			}
		})
	}
}

// TestNoResponseForASlice checks that nginx cuts a response off if the origin answers the request for a later slice
// with 101.
func TestNoResponseForASlice(t *testing.T) {
	t.Parallel()
	p := newPods(t, 2, ways("")["slices"])
	p.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=1048576-") {
			connection, _, err := w.(http.Hijacker).Hijack()
			must(t, err)
			_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
			_ = connection.Close()
			return true
		}
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("a", 1<<20+150)))
		return true
	})
	for pod := range p.nginx {
		path := ownedBySecond(t, fmt.Sprintf("/page-%d", pod))
		request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
		must(t, err)
		request.Host = "www.example.com"
		request.Header.Set("Connection", "upgrade")
		request.Header.Set("Upgrade", "websocket")
		r, err := p.clients[pod].Do(request)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		if err == nil || strings.Trim(string(body), "a") != "" {
			t.Errorf("pod %d: %s, %d bytes, %v; want a response that is cut", pod, r.Status, len(body), err)
		}
	}
}

// TestLargeBodies checks that a body of any size reaches the origin complete, in all configurations of ways.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				body, err := io.ReadAll(r.Body)
				must(t, err)
				_, _ = io.WriteString(w, r.Method+" "+string(body))
				return true
			})
			for pod := range p.nginx {
				// A client's path may have the same ending as the internal paths of the memory tier.
				path := ownedBySecond(t, "/upload") + []string{"", ":/.cachenode-promote"}[pod]
				for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET"} {
					for _, size := range []int{65536, 65537, 1 << 20} {
						body := strings.Repeat("a", size)
						request, err := http.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
						must(t, err)
						request.Host = "www.example.com"
						r, err := p.clients[pod].Do(request)
						must(t, err)
						got, err := io.ReadAll(r.Body)
						must(t, err)
						if string(got) != method+" "+body {
							t.Errorf("pod %d, %s of %d bytes: %s, %d bytes", pod, method, size, r.Status, len(got))
						}
					}
				}
			}
		})
	}
}
