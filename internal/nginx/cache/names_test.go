package cache_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// serveNames runs the agent's resolver for an nginx until stop is called or the test ends.
func serveNames(t *testing.T, n *nginxtest.Nginx, config resolver.Config) (r *resolver.Resolver, stop func()) {
	t.Helper()
	r = resolver.New(slog.New(slog.DiscardHandler), clock.RealClock{}, func(resolver.Result) {})
	config.ClusterDomain = "cluster.local"
	config.PodDomain = naming.ServiceHost(naming.Headless("edge"), "default", config.ClusterDomain)
	r.Configure(config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	udp, tcp := n.ListenPacket(layout.ResolverAddress), n.Listen(layout.ResolverAddress)
	go func() { ended <- r.Serve(ctx, udp, tcp) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			must(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

// TestPodMoves checks that nginx finds a pod at its new address, and that requests for a pod without an address go
// elsewhere at once. While the resolver is gone or does not answer, nginx keeps the addresses that it knows, even
// across a reload.
func TestPodMoves(t *testing.T) {
	t.Parallel()
	// A pod that has moved does not answer on the connections that nginx has kept open. No client may wait for such a
	// connection.
	p := newPodsEdited(t, asRendered, 2, sharded("  memoryTier: {enabled: false}\n"))
	other := p.addresses[1]
	p.addresses = nil // nginx resolves names from now on
	asked := 0
	through := func() string {
		for {
			asked++
			path := fmt.Sprintf("/object/%d", asked)
			if owner, _ := owners(t, fleet.Of(2), path); owner == 1 {
				return how(p.get(t, 0, path))
			}
		}
	}
	files := int64(5000)
	reload := func() {
		files++ // another version
		p.change = func(_ int, in *cache.Input, _ func(string, []byte)) { in.Facts.OpenFiles = files }
		p.take(t, 0, fleet.Of(2))
	}
	told := func(r *resolver.Resolver, address string) {
		var addresses agentapi.Addresses
		if address != "" {
			addresses.Pods = map[string]netip.Addr{"edge-1": netip.MustParseAddr(address)}
		}
		r.Tell(addresses)
	}
	logged := func(text string) {
		t.Helper()
		before := strings.Count(p.nginx[0].Log(), text)
		becomes(t, "logged", func() string {
			if strings.Count(p.nginx[0].Log(), text) > before {
				return "logged"
			}
			return text
		})
	}

	r, stop := serveNames(t, p.nginx[0], resolver.Config{})
	told(r, other)
	reload()
	becomes(t, "peer MISS", through)

	told(r, "")
	becomes(t, "none MISS", through)
	const moved = "10.88.0.77"
	p.nginx[1].Move(other, moved)
	told(r, moved)
	becomes(t, "peer MISS", through)

	stop()
	logged("could not be resolved")
	reload()
	becomes(t, "peer MISS", through) // without the resolver
	hung := p.nginx[0].ListenPacket(layout.ResolverAddress)
	logged("could not be resolved (110: Operation timed out)")
	becomes(t, "peer MISS", through) // while the resolver does not answer
	must(t, hung.Close())
	p.nginx[1].Move(moved, other)
	r, _ = serveNames(t, p.nginx[0], resolver.Config{})
	told(r, other)
	becomes(t, "peer MISS", through)
}

// TestDeniedNames checks that nginx never connects to an address that is denied for origins, whatever a name server
// answers.
func TestDeniedNames(t *testing.T) {
	t.Parallel()
	p := newPods(t, 2, strings.Replace(threeDisks, "host: 127.0.0.1", "host: origin.example.com", 1))
	n, allowed := p.nginx[0], p.addresses[0]
	var reached atomic.Int64
	n.Serve("127.0.0.2:9000", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	n.Serve(allowed+":9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "origin")
	}))
	var address atomic.Value
	address.Store("127.0.0.2")
	server := nameServer(t, &address)
	serveNames(t, n, resolver.Config{
		Servers: []netip.AddrPort{server},
		Denied:  resolver.Denied{Always: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	becomes(t, "asked", func() string {
		if strings.Contains(n.Log(), "origin.example.com could not be resolved (3: Host not found)") {
			return "asked"
		}
		return n.Log()
	})
	asked := 0
	ask := func() string {
		asked++
		r, body := get(t, p.clients[0], "www.example.com", fmt.Sprintf("/%d", asked))
		return fmt.Sprint(r.StatusCode, " ", body)
	}
	if got := ask(); !strings.HasPrefix(got, "502 ") {
		t.Errorf("an origin on loopback: %s, want 502", got)
	}
	address.Store(allowed)
	becomes(t, "200 origin", ask)
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached loopback", n)
	}

	address.Store("SERVFAIL") // no answer: nginx keeps the address
	becomes(t, "told", func() string {
		if strings.Contains(n.Log(), "origin.example.com could not be resolved (2: Server failure)") {
			return "told"
		}
		return n.Log()
	})
	for range 10 {
		if got := ask(); got != "200 origin" {
			t.Errorf("while the name server fails: %s", got)
		}
	}
	address.Store("NXDOMAIN") // the name does not exist: nginx drops the address
	becomes(t, "502", func() string { return ask()[:3] })
}

// nameServer runs a name server on the machine's loopback interface. It answers every name with the same address.
func nameServer(t *testing.T, address *atomic.Value) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	server := &dns.Server{PacketConn: socket, Handler: oneAddress(address)}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return netip.MustParseAddrPort(socket.LocalAddr().String())
}
