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

	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestNewBackend checks that no request fails while a route moves from one backend to another, if nginx first gets the
// new backend's upstream and has used an answer for its name. The requests are for objects that are in no cache.
func TestNewBackend(t *testing.T) {
	t.Parallel()
	to := func(i int) routes.Table {
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
	n := nginxtest.New(t)
	configure := func(now, other routes.Table) (version string) {
		in := decode(t, []byte(threeDisks))
		in.Routes, in.Also = now, slices.Collect(maps.Values(other.Actions()))
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
			if len(r.Unanswered([]string{backendName(i)}, time.Time{})) == 0 {
				return "answered"
			}
			return "not yet"
		})
	}
	n.Serve("127.0.0.2:9001", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}))
	configure(to(0), routes.Table{})
	n.Start()
	known(0)

	var clients sync.WaitGroup
	var ended atomic.Bool
	var asked atomic.Int64
	for c := range 4 {
		client := n.Client()
		clients.Go(func() {
			for i := 0; !ended.Load(); i++ {
				request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:20000/%d-%d", c, i), nil)
				if err != nil {
					t.Error(err)
					return
				}
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if asked.Add(1); response.StatusCode != http.StatusOK {
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
		reload(configure(to(i), to(i+1)))
		known(i + 1)
		before := asked.Load()
		reload(configure(to(i+1), to(i)))
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

func backendName(i int) string { return fmt.Sprintf("b%d.example.com", i) }
