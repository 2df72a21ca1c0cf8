package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// overlaps makes tables of routes, and requests for them. The routes overlap in hosts, paths, methods, headers and
// arguments.
type overlaps struct{ *rand.Rand }

func oneOf[T any](o overlaps, of ...T) T { return of[o.IntN(len(of))] }

const (
	gatewaysOfPairs  = 6
	routesOfAGateway = 16
	backendPort      = 9001
)

// table returns routes of several teams for several Gateways. Each rule has its own backend, and each Gateway has two
// ports.
func (o overlaps) table() (t routes.Table) {
	for gateway := range gatewaysOfPairs {
		var attached []routes.Attachment
		for i := range routesOfAGateway {
			r, host := o.route(gateway, i)
			t.Routes = append(t.Routes, r)
			attached = append(attached, routes.Attachment{Route: r.ID(), Hosts: []routes.Host{host}})
		}
		for i, port := range []int32{80, 8080} {
			t.Listeners = append(t.Listeners, routes.Listener{
				Gateway: fmt.Sprint("edge/main-", gateway), Name: fmt.Sprint(port), Port: port,
				PodPort: podPort(gateway, i), Attached: attached,
			})
		}
	}
	return t
}

// podPort returns the port of the pods for a port of a Gateway.
func podPort(gateway, port int) int32 { return int32(20000 + 2*gateway + port) }

// route returns a route and its host. The last route of a Gateway gets all requests below /a that no other route gets.
func (o overlaps) route(gateway, i int) (r routes.Route, host routes.Host) {
	r = routes.Route{
		Namespace: fmt.Sprintf("team-%d-%d", gateway, i), Name: "site", Site: fmt.Sprintf("%012d.%08d.site", gateway, i),
	}
	host = oneOf(o, routes.Host("www.example.com"), "*.example.com", "")
	for rule := range 2 {
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
		if i == routesOfAGateway-1 {
			m, host = routes.Match{Path: routes.Path{Value: oneOf(o, "/a", "/a/b")}}, ""
		}
		address := fmt.Sprintf("127.1.%d.%d", gateway, 2*i+rule)
		r.Rules = append(r.Rules, routes.Rule{Matches: []routes.Match{m}, Backends: []routes.Backend{
			{Name: "backend:" + address, Host: address, Port: backendPort, Weight: 1},
		}})
	}
	return r, host
}

// asked is a request to a port of the pods. of is the same request in the form that routes.Find accepts.
type asked struct {
	*http.Request
	gateway int
	port    int32
	of      routes.Request
}

func (o overlaps) request(t *testing.T) asked {
	t.Helper()
	gateway, port := o.IntN(gatewaysOfPairs), o.IntN(2)
	r := asked{gateway: gateway, port: podPort(gateway, port), of: routes.Request{
		Host:    oneOf(o, "www.example.com", "www.example.com", "a.example.com", "elsewhere.org"),
		Method:  oneOf(o, "GET", "GET", "GET", "GET", "HEAD", "POST"),
		Path:    oneOf(o, "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab"),
		Query:   oneOf(o, "", "", "page=1", "page=2", "x=1&page=2"),
		Headers: map[string]string{},
	}}
	uri := r.of.Path
	if r.of.Query != "" {
		uri += "?" + r.of.Query
	}
	var err error
	r.Request, err = http.NewRequest(r.of.Method, fmt.Sprintf("http://127.0.0.1:%d%s", r.port, uri), nil)
	must(t, err)
	if r.Host = r.of.Host; port == 1 && o.IntN(4) > 0 {
		r.Host += ":8080"
	}
	if v := oneOf(o, "", "1", "2"); v != "" {
		r.Header.Set("X-Version", v)
		r.of.Headers["x-version"] = v
	}
	if o.IntN(4) == 0 {
		r.Header.Set("Range", "bytes=5-40")
	}
	return r
}

// ownText returns the answer of a backend to a request. Some answers are longer than a slice.
func ownText(address string, r *http.Request) string {
	length := 3000
	if strings.HasSuffix(r.URL.Path, "/c") {
		length = 5 << 18
	}
	return fmt.Sprintf("%s answers %s for %s; ", address, r.URL.RequestURI(), r.Host) + strings.Repeat("-", length)
}

// expectations contains what a table defines. met contains the pairs of routes that both match a request.
type expectations struct {
	table routes.Table
	hosts map[int32][]routes.VirtualHost
	met   map[[2]string]bool
}

func expect(table routes.Table) *expectations {
	e := &expectations{table, map[int32][]routes.VirtualHost{}, map[[2]string]bool{}}
	for _, l := range table.Listeners {
		e.hosts[l.PodPort] = table.VirtualHosts(l.PodPort)
	}
	return e
}

// answer returns the answer to a request, and its status.
func (e *expectations) answer(r asked) (body string, status int) {
	e.meet(r)
	_, c := routes.Find(e.hosts[r.port], r.of)
	if c == nil {
		return "", http.StatusNotFound
	}
	body = ownText(e.table.Routes[c.Route].Rules[c.Rule].Backends[0].Host, r.Request)
	status = http.StatusOK
	if r.Header.Get("Range") != "" {
		body, status = body[5:41], http.StatusPartialContent
	}
	if r.Method == http.MethodHead {
		body = ""
	}
	return body, status
}

// meet notes the pairs of routes that both match a request.
func (e *expectations) meet(r asked) {
	var matching []string
	at := slices.IndexFunc(e.table.Listeners, func(l routes.Listener) bool { return l.PodPort == r.port })
	listener := e.table.Listeners[at]
	for i, a := range listener.Attached {
		alone := routes.Table{
			Listeners: []routes.Listener{{PodPort: r.port, Attached: []routes.Attachment{a}}},
			Routes:    []routes.Route{e.table.Routes[r.gateway*routesOfAGateway+i]},
		}
		if _, c := routes.Find(alone.VirtualHosts(r.port), r.of); c != nil {
			matching = append(matching, a.Route)
		}
	}
	for i, a := range matching {
		for _, b := range matching[i+1:] {
			e.met[[2]string{a, b}] = true
		}
	}
}

// TestPairsOfRoutes checks that each answer comes from the backend that the routes define. Requests for the same URLs
// of different routes reach two pods in random order. The answers come from the owner's disk, over a hop, from memory,
// in slices, from a stand-in after a third pod has died, and from the backend without a cache. All in all, at least
// 2,000 different pairs of routes match the same request.
func TestPairsOfRoutes(t *testing.T) {
	t.Parallel()
	var pairs, played atomic.Int64
	ways := ways("")
	for name, yaml := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs.Add(int64(playPairs(t, name, yaml)))
			played.Add(1)
		})
	}
	t.Cleanup(func() {
		if n := pairs.Load(); n < 2000 && int(played.Load()) == len(ways) {
			t.Errorf("%d pairs of routes match the same request, want 2000", n)
		}
	})
}

// playPairs sends requests on one way, and returns the number of pairs of routes that match the same request.
func playPairs(t *testing.T, name, yaml string) (pairs int) {
	t.Helper()
	const requests = 1200
	o := overlaps{rand.New(rand.NewPCG(1, uint64(len(name))))}
	e := expect(o.table())
	p := newPods(t, 3, yaml, func(_ int, in *cache.Input, _ func(string, []byte)) { in.Routes = e.table })
	for _, n := range p.nginx {
		n.Serve(fmt.Sprint("0.0.0.0:", backendPort), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			address, _, _ := net.SplitHostPort(fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)))
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(ownText(address, r)))
		}))
	}
	seen := map[string]int{}
	for i := range requests {
		if i == requests/2 {
			for _, pid := range p.nginx[2].Processes() {
				must(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		r := o.request(t)
		want, status := e.answer(r)
		response, err := p.clients[o.IntN(2)].Do(r.Request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if status == http.StatusNotFound {
			body = nil
		}
		if response.StatusCode != status || string(body) != want {
			t.Fatalf("%s %s of %s, %v: status %d, %.60q, want %d, %.60q (%s, %s)", r.Method, r.URL, r.Host, r.Header,
				response.StatusCode, body, status, want, response.Header.Get("X-Cache"), response.Header.Get("X-Cache-Hop"))
		}
		seen[response.Header.Get("X-Cache")+" "+response.Header.Get("X-Cache-Hop")]++
	}
	t.Log(seen, len(e.met))
	expected := []string{"HIT none", "HIT peer", "MISS none", "MISS peer", "HIT standin", "MISS standin"}
	if strings.Contains(name, "memory") {
		expected = append(expected, "HIT memory")
	}
	for _, way := range expected {
		if seen[way] == 0 {
			t.Errorf("no answer is a %s: %v", way, seen)
		}
	}
	return len(e.met)
}
