// Command routes makes the nginx.conf for a number of HTTPRoutes, and measures what the operator does for them. The
// script sites, which runs this command, then measures nginx.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Usual sizes: ten teams have one route for each host, with three rules. A tenth of the routes changes headers.
const (
	teams     = 10
	rules     = 3
	oneIn     = 10
	largeFrom = 100 // with this number of routes or more, one host has 1,000 rules
	largeHost = 1000
	perRoute  = 16 // rules, the maximum of an HTTPRoute
)

func main() {
	n := flag.Int("n", 1, "how many HTTPRoutes")
	node := flag.String("f", "", "the file of the CacheNode")
	out := flag.String("o", "", "the file for nginx.conf")
	flag.Parse()
	if err := run(*n, *node, *out); err != nil {
		log.Fatal(err)
	}
}

// run writes the configuration, and prints one line: the number of routes, the bytes of the revision as JSON and in the
// ConfigMap, the bytes of nginx.conf, the milliseconds of a decision and of a rendering, and the last path of the large
// host.
func run(n int, node, out string) error {
	objects, err := file.ReadAll([]string{node}, "edge", os.Stdin)
	if err != nil {
		return err
	}
	cacheNode := objects.CacheNodes[0]
	name := types.NamespacedName{Namespace: cacheNode.Namespace, Name: cacheNode.Name}
	state := objects.State(gateways.FleetFor(name, cacheNode, "cluster.local"))
	last := fill(&state, n)
	begun := time.Now()
	result := gateways.Decide(state)
	decided := time.Since(begun)
	if got := len(result.Table.Routes); got != len(state.HTTPRoutes) {
		return fmt.Errorf("%d of %d routes are attached: %v", got, len(state.HTTPRoutes), result.Problems()[:1])
	}
	r, err := revision.Of(effective.Of(cacheNode, effective.Before{}), revision.Outside{
		ClusterDomain: "cluster.local", Routes: local(result.Table),
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	stored, _ := agentapi.Pack(string(text))
	begun = time.Now()
	config, err := cache.Render(cache.Input{Revision: r, Facts: cache.Facts{
		Cores: 2, Memory: 1 << 30, Sizes: map[string]int64{"disk1": 1 << 30},
	}})
	if err != nil {
		return err
	}
	rendered := time.Since(begun)
	fmt.Printf("%d %d %d %d %d %d %s\n", len(result.Table.Routes), len(text), len(stored), len(config.Text),
		decided.Milliseconds(), rendered.Milliseconds(), last)
	return os.WriteFile(out, []byte(config.Text), 0o600)
}

// fill adds a Gateway and n routes of several teams to a state, and returns the last path of the large host. Their
// names are random, because names of real teams do not compress well.
func fill(s *gateways.State, n int) (last string) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		text := make([]byte, 10)
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyz"[random.IntN(26)]
		}
		return string(text)
	}
	gateway := gw.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: s.Fleet.Namespace, Name: "main"}}
	gateway.Spec.Listeners = []gw.Listener{{Name: "http", Port: 80, Protocol: gw.HTTPProtocolType}}
	all := gw.NamespacesFromAll
	gateway.Spec.Listeners[0].AllowedRoutes = &gw.AllowedRoutes{Namespaces: &gw.RouteNamespaces{From: &all}}
	s.Gateways = []gw.Gateway{gateway}
	name := types.NamespacedName{Namespace: gateway.Namespace, Name: gateway.Name}
	s.Ports = map[gateways.Port]int32{{Gateway: name, Number: 80}: 20000}
	add := func(team, host string, count int) (path string) {
		route := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: word(), UID: types.UID(word())}}
		parent := gw.Namespace(s.Fleet.Namespace)
		route.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: &parent}}
		route.Spec.Hostnames = []gw.Hostname{gw.Hostname(host)}
		service, port := types.NamespacedName{Namespace: team, Name: word()}, gw.PortNumber(80)
		s.Services[service] = gateways.Service{Ports: map[int32]int32{80: 80}}
		for i := range count {
			path = "/" + word()
			if i == 0 {
				path = "/"
			}
			ref := gw.HTTPBackendRef{}
			ref.Name, ref.Port = gw.ObjectName(service.Name), &port
			rule := gw.HTTPRouteRule{
				Matches:     []gw.HTTPRouteMatch{{Path: &gw.HTTPPathMatch{Value: new(path)}}},
				BackendRefs: []gw.HTTPBackendRef{ref},
			}
			if len(s.HTTPRoutes)%oneIn == oneIn-1 {
				rule.Filters = []gw.HTTPRouteFilter{{
					Type:                  gw.HTTPRouteFilterRequestHeaderModifier,
					RequestHeaderModifier: &gw.HTTPHeaderFilter{Set: []gw.HTTPHeader{{Name: "X-Team", Value: team}}},
				}}
			}
			route.Spec.Rules = append(route.Spec.Rules, rule)
		}
		s.HTTPRoutes = append(s.HTTPRoutes, route)
		return path
	}
	for i := range teams + 1 {
		team := fmt.Sprint("team-", i)
		if i == teams {
			team = "large"
		}
		s.Namespaces[team] = gateways.Namespace{UID: types.UID(word() + word())}
	}
	add("team-0", "first.example.com", rules)
	if n >= largeFrom {
		for i := 0; i < largeHost; i += perRoute {
			last = add("large", "large.example.com", min(perRoute, largeHost-i))
		}
	}
	for i := len(s.HTTPRoutes); i < n; i++ {
		add(fmt.Sprint("team-", i%teams), word()+".example.com", rules)
	}
	return last
}

// local returns the table with the addresses of the script's origin as backends. Each team keeps a backend of its own.
func local(t routes.Table) routes.Table {
	hosts := map[string]int{}
	for i := range t.Routes {
		t.Routes[i].Rules = slices.Clone(t.Routes[i].Rules)
		for j := range t.Routes[i].Rules {
			for k := range t.Routes[i].Rules[j].Backends {
				b := &t.Routes[i].Rules[j].Backends[k]
				if _, ok := hosts[b.Host]; !ok {
					hosts[b.Host] = len(hosts)
				}
				at := hosts[b.Host]
				b.Host, b.Port = fmt.Sprintf("127.0.%d.%d", 1+at/250, 1+at%250), 9000
			}
		}
	}
	return t
}
