package cache_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestNewBackend checks that no request fails while a route moves from one backend to another, while it moves between a
// backend and a redirect, and while the CacheNode's own site moves from one origin to another, if nginx first gets the
// new name without requests for it, and has used an answer. The requests are for objects that are in no cache.
func TestNewBackend(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		port     int
		moves    func(in *cache.Input, to int)
		foretell func(in *cache.Input, to int)
	}{
		"a route": {
			20000,
			func(in *cache.Input, to int) { in.Routes = routeTo(to) },
			func(in *cache.Input, to int) { in.Also = slices.Collect(maps.Values(routeTo(to).Actions())) },
		},
		"a route, with redirects": {
			20000,
			func(in *cache.Input, to int) { in.Routes = routeOrRedirect(to) },
			func(in *cache.Input, to int) { in.Also = slices.Collect(maps.Values(routeOrRedirect(to).Actions())) },
		},
		"the CacheNode's own site": {
			8080,
			func(in *cache.Input, to int) { in.Spec.Origin.Servers = serversAt(to) },
			func(in *cache.Input, to int) { in.Coming = serversAt(to) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			movesBackends(t, tt.port, func(now, other int) cache.Input {
				in := decode(t, []byte(threeDisks))
				tt.moves(&in, now)
				tt.foretell(&in, other)
				return in
			})
		})
	}
}

func backendName(i int) string { return fmt.Sprintf("b%d.example.com", i) }

func serversAt(i int) []v1alpha1.OriginServer {
	return []v1alpha1.OriginServer{{Host: new(backendName(i)), Port: new(int32(9001))}}
}

func routeTo(i int) routes.Table {
	return routes.Table{
		Listeners: []routes.Listener{{
			Gateway: "edge/main", Name: "http", Port: 80, PodPort: 20000,
			Attached: []routes.Attachment{{Route: "red/site", Hosts: []routes.Host{""}}},
		}},
		Routes: []routes.Route{{Namespace: "red", Name: "site", Site: "111111111111.11111111.site", Rules: []routes.Rule{{
			Matches:  []routes.Match{{Path: routes.Path{Value: "/"}}},
			Backends: []routes.Backend{{Name: "b", Host: backendName(i), Port: 9001, Weight: 1}},
		}}}},
	}
}

// routeOrRedirect does the same as routeTo, but each other table has a redirect instead of the backend.
func routeOrRedirect(i int) routes.Table {
	t := routeTo(i)
	if i%2 == 1 {
		rule := &t.Routes[0].Rules[0]
		rule.Backends, rule.Redirect = nil, &routes.Redirect{Status: http.StatusFound, Host: "elsewhere.example.com"}
	}
	return t
}

// movesBackends moves from one backend to the next several times, while clients send requests to a port. input returns
// the input for a configuration with a backend, which also knows another one.
func movesBackends(t *testing.T, port int, input func(now, other int) cache.Input) {
	t.Helper()
	n := nginxtest.New(t)
	names := map[int]bool{} // the backends that are in a configuration
	configure := func(now, other int) (version string) {
		in := input(now, other)
		for _, of := range []int{now, other} {
			names[of] = in.Routes.BackendHosts()[backendName(of)] || len(in.Coming) > 0 ||
				slices.ContainsFunc(in.Also, func(a routes.Action) bool { return a.Backend.Host == backendName(of) })
		}
		config, err := cache.Render(in)
		must(t, err)
		n.Configure(config.Text, "disk1", "disk2", "disk3")
		return config.Version
	}
	var address atomic.Value
	address.Store("127.0.0.2")
	r, _ := serveNames(t, n, resolver.Config{Servers: []netip.AddrPort{nameServer(t, &address)}})
	known := func(i int) {
		t.Helper()
		becomes(t, "answered", func() string {
			if !names[i] || len(r.Unanswered([]string{backendName(i)}, time.Time{})) == 0 {
				return "answered"
			}
			return "not yet"
		})
	}
	n.Serve("127.0.0.2:9001", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}))
	configure(0, 0)
	n.Start()
	known(0)

	var clients sync.WaitGroup
	var ended atomic.Bool
	var asked atomic.Int64
	for c := range 4 {
		client := n.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		clients.Go(func() {
			for i := 0; !ended.Load(); i++ {
				request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%d-%d", port, c, i), nil)
				if err != nil {
					t.Error(err)
					return
				}
				request.Host = "www.example.com"
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if asked.Add(1); response.StatusCode != http.StatusOK && response.StatusCode != http.StatusFound {
					t.Errorf("request %d: status %d", asked.Load(), response.StatusCode)
				}
			}
		})
	}
	private, version := n.Client(), fmt.Sprintf("http://127.0.0.1:%d/version", layout.PrivatePort)
	reload := func(want string) {
		t.Helper()
		must(t, syscall.Kill(n.Processes()[0], syscall.SIGHUP))
		becomes(t, want, func() string {
			_, body := send(t, private, http.MethodGet, "private", version)
			return body
		})
	}
	for i := range 6 {
		reload(configure(i, i+1))
		known(i + 1)
		before := asked.Load()
		reload(configure(i+1, i))
		becomes(t, "more", func() string { // requests go on
			if asked.Load() > before+100 {
				return "more"
			}
			return "too few"
		})
	}
	ended.Store(true)
	clients.Wait()
}
