package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// overlaps makes tables of routes, and requests for them. The routes overlap in hosts, paths, methods, headers and
// arguments.
type overlaps struct{ *rand.Rand }

func oneOf[T any](o overlaps, of ...T) T { return of[o.IntN(len(of))] }

// backends are the ports of the backends.
var backends = []int{9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008}

// table returns routes of several teams, in which each rule has its own backend. All routes are attached to the same
// two ports.
func (o overlaps) table() (t routes.Table) {
	var attached []routes.Attachment
	next := 0
	for i := range len(backends) / 2 {
		all := i == len(backends)/2-1 // the last route gets all requests below /a that no other route gets
		r := routes.Route{Namespace: fmt.Sprint("team-", i), Name: "site", Site: fmt.Sprintf("%012d.%08d.site", i, i)}
		for range 2 {
			m := routes.Match{
				Path:   routes.Path{Value: oneOf(o, "/", "/a", "/a/b"), Exact: o.IntN(4) == 0},
				Method: oneOf(o, "", "", "GET", "POST"),
			}
			if o.IntN(2) == 0 {
				m.Headers = []routes.Pair{{Name: "x-version", Value: oneOf(o, "1", "2")}}
			}
			if o.IntN(3) == 0 {
				m.Query = []routes.Pair{{Name: "page", Value: oneOf(o, "1", "2")}}
			}
			if all {
				m = routes.Match{Path: routes.Path{Value: oneOf(o, "/a", "/a/b")}}
			}
			port := backends[next]
			next++
			r.Rules = append(r.Rules, routes.Rule{Matches: []routes.Match{m}, Backends: []routes.Backend{
				{Name: fmt.Sprint("backend:", port), Host: "127.0.0.1", Port: int32(port), Weight: 1},
			}})
		}
		t.Routes = append(t.Routes, r)
		host := oneOf(o, routes.Host("www.example.com"), "*.example.com", "")
		if all {
			host = ""
		}
		attached = append(attached, routes.Attachment{Route: r.ID(), Hosts: []routes.Host{host}})
	}
	for i, port := range []int32{80, 8080} {
		t.Listeners = append(t.Listeners, routes.Listener{
			Gateway: "edge/main", Name: fmt.Sprint(port), Port: port, PodPort: 20000 + int32(i), Attached: attached,
		})
	}
	return t
}

// request returns a request to a port of a pod, and the same request in the form that routes.Find accepts.
func (o overlaps) request(t *testing.T) (r *http.Request, port int32, of routes.Request) {
	t.Helper()
	port = oneOf(o, int32(20000), 20001)
	of = routes.Request{
		Host:    oneOf(o, "www.example.com", "a.example.com", "elsewhere.org"),
		Method:  oneOf(o, "GET", "GET", "GET", "GET", "HEAD", "POST"),
		Path:    oneOf(o, "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab"),
		Query:   oneOf(o, "", "", "page=1", "page=2", "x=1&page=2"),
		Headers: map[string]string{},
	}
	uri := of.Path
	if of.Query != "" {
		uri += "?" + of.Query
	}
	r, err := http.NewRequest(of.Method, fmt.Sprintf("http://127.0.0.1:%d%s", port, uri), nil)
	must(t, err)
	if r.Host = of.Host; port == 20001 && o.IntN(4) > 0 {
		r.Host += ":8080"
	}
	if v := oneOf(o, "", "1", "2"); v != "" {
		r.Header.Set("X-Version", v)
		of.Headers["x-version"] = v
	}
	if o.IntN(4) == 0 {
		r.Header.Set("Range", "bytes=5-40")
	}
	return r, port, of
}

// ownText returns the answer of a backend to a request.
func ownText(port int, r *http.Request) string {
	return fmt.Sprintf("%d answers %s for %s; ", port, r.URL.RequestURI(), r.Host) + strings.Repeat("-", 3000)
}

// TestPairsOfRoutes checks that each answer comes from the backend that the routes define. Requests for the same URLs
// of different routes reach two pods in random order. The answers come from the owner's disk, over a hop, from memory,
// in slices, and from the backend without a cache.
func TestPairsOfRoutes(t *testing.T) {
	t.Parallel()
	const requests = 600
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := overlaps{rand.New(rand.NewPCG(1, uint64(len(name))))}
			table := o.table()
			hosts := map[int32][]routes.VirtualHost{20000: table.VirtualHosts(20000), 20001: table.VirtualHosts(20001)}
			p := newPods(t, 2, yaml, func(_ int, in *cache.Input, _ func(string, []byte)) { in.Routes = table })
			for _, n := range p.nginx {
				for _, port := range backends {
					n.Serve(fmt.Sprint("127.0.0.1:", port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Cache-Control", "max-age=600")
						w.Header().Set("ETag", `"1"`)
						http.ServeContent(w, r, "", time.Time{}, strings.NewReader(ownText(port, r)))
					}))
				}
			}
			seen := map[string]int{}
			for range requests {
				r, port, of := o.request(t)
				want, status := "", http.StatusNotFound
				if _, c := routes.Find(hosts[port], of); c != nil {
					backend := table.Routes[c.Route].Rules[c.Rule].Backends[0]
					want, status = ownText(int(backend.Port), r), http.StatusOK
				}
				if r.Header.Get("Range") != "" && status == http.StatusOK {
					want, status = want[5:41], http.StatusPartialContent
				}
				response, err := p.clients[o.IntN(2)].Do(r)
				must(t, err)
				body, err := io.ReadAll(response.Body)
				must(t, err)
				must(t, response.Body.Close())
				if status == http.StatusNotFound || of.Method == http.MethodHead {
					want, body = "", nil
				}
				if response.StatusCode != status || string(body) != want {
					t.Fatalf("%s %s of %s, %v: status %d, %.60q, want %d, %.60q (%s, %s)", r.Method, r.URL, r.Host, r.Header,
						response.StatusCode, body, status, want, response.Header.Get("X-Cache"), response.Header.Get("X-Cache-Hop"))
				}
				seen[response.Header.Get("X-Cache")+" "+response.Header.Get("X-Cache-Hop")]++
			}
			t.Log(seen)
			for _, way := range []string{"HIT none", "HIT peer", "MISS none", "MISS peer"} {
				if seen[way] == 0 {
					t.Errorf("no answer is a %s: %v", way, seen)
				}
			}
		})
	}
}
