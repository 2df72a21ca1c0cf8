package cache_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// statusesOf sends requests over one connection, and returns the status of each response, or why there is none.
func statusesOf(t *testing.T, n *nginxtest.Nginx, requests ...string) (statuses []string) {
	t.Helper()
	connection, err := n.Dial("127.0.0.1:8080")
	must(t, err)
	defer func() { _ = connection.Close() }()
	must(t, connection.SetDeadline(time.Now().Add(time.Minute)))
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

// TestNoResponse checks that what an origin sends with a status below 200 never reaches a client as the response: after
// 101, the client would be connected to the gateway. The next request on the connection is checked as the first was.
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

// TestOriginRedirects checks that what an origin redirects to (X-Accel-Redirect) is neither stored nor served from a
// cache: the origin decides for each client.
func TestOriginRedirects(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			path := ownedBySecond(t, "/download")
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
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
			})
			for range 2 {
				for pod := range p.nginx {
					r, body := ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path, "Cookie: user=a")
					if body != "secret" || r.Header.Get("X-Cache") != "BYPASS" {
						t.Errorf("pod %d: %s, %s: %q", pod, r.Status, how(r), body)
					}
					if r, body = ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path); r.StatusCode != 403 {
						t.Errorf("pod %d: who may not have it gets %s, %s: %q", pod, r.Status, how(r), body)
					}
				}
			}
			if n := p.files(t); n != 0 {
				t.Errorf("%d files are stored", n)
			}
		})
	}
}

// TestLargeBodies checks that a body of any size reaches the origin whole, on all ways.
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
			path := ownedBySecond(t, "/upload")
			for pod := range p.nginx {
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
