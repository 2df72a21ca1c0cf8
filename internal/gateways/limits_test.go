package gateways_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// crowded returns a state in which some namespaces create many Gateways and routes, with random numbers of listeners,
// hosts and matches.
func crowded(r *rand.Rand) gateways.State {
	s := gateways.State{
		Fleet: gateways.Fleet{
			NamespacedName: name("edge", "fleet"), MaxRoutes: 2000, MaxRoutesPerNamespace: 200,
			Allowed: gw.RouteNamespaces{From: new(gw.NamespacesFromAll)},
		},
		Namespaces: map[string]gateways.Namespace{}, Ports: map[gateways.Port]int32{},
	}
	host := func(i int) gw.Hostname {
		return gw.Hostname(fmt.Sprintf("h%d.%s.example.com", i, strings.Repeat("x", r.IntN(60)+1)))
	}
	for n := range 6 {
		namespace := fmt.Sprintf("team-%d", n)
		s.Namespaces[namespace] = gateways.Namespace{UID: types.UID(fmt.Sprintf("%d2345678-abcd", n))}
		meta := func(i int) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("o%d", i), UID: types.UID(fmt.Sprintf("%08d", i)),
				CreationTimestamp: metav1.Unix(int64(r.IntN(1000)), 0),
			}
		}
		var parents []gw.ParentReference
		for i := range 8 {
			g := gw.Gateway{ObjectMeta: meta(i)}
			for j := range r.IntN(64) + 1 {
				l := gw.Listener{Name: gw.SectionName(fmt.Sprintf("l%d", j)), Port: 80, Protocol: gw.HTTPProtocolType}
				if j > 0 {
					l.Hostname = new(host(j))
				}
				g.Spec.Listeners = append(g.Spec.Listeners, l)
			}
			s.Gateways = append(s.Gateways, g)
			s.Ports[gateways.Port{Gateway: name(namespace, g.Name), Number: 80}] = int32(20000 + 8*n + i)
			parents = append(parents, gw.ParentReference{Name: gw.ObjectName(g.Name)})
		}
		for i := range r.IntN(60) + 1 {
			route := gw.HTTPRoute{ObjectMeta: meta(i)}
			route.Spec.ParentRefs = parents[:r.IntN(len(parents))+1]
			for j := range r.IntN(16) {
				route.Spec.Hostnames = append(route.Spec.Hostnames, host(j))
			}
			for range r.IntN(16) + 1 {
				path := "/" + strings.Repeat("p", r.IntN(500))
				match := gw.HTTPRouteMatch{Path: &gw.HTTPPathMatch{Value: &path}}
				route.Spec.Rules = append(route.Spec.Rules, gw.HTTPRouteRule{Matches: slices.Repeat(
					[]gw.HTTPRouteMatch{match}, r.IntN(8)+1)})
			}
			s.HTTPRoutes = append(s.HTTPRoutes, route)
		}
	}
	return s
}

// TestTableIsBounded checks that no set of Gateways and routes makes a table that is larger than the limit, or that
// nginx's configuration would have more rows than the limit. It also checks that the order in which objects are read
// does not matter.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	const maxBytes, maxRows = 640 << 10, 32 << 10
	largest, most, refused := 0, 0, 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := crowded(r)
		got := gateways.Decide(s)
		text, err := json.Marshal(got.Table)
		if err != nil {
			t.Fatal(err)
		}
		rows := rowsOf(got.Table)
		largest, most = max(largest, len(text)), max(most, rows)
		refused += len(s.HTTPRoutes) - len(got.Table.Routes)
		if len(text) > maxBytes || rows > maxRows {
			t.Errorf("seed %d: the table has %d bytes and %d rows", seed, len(text), rows)
		}
		r.Shuffle(len(s.Gateways), func(i, j int) { s.Gateways[i], s.Gateways[j] = s.Gateways[j], s.Gateways[i] })
		r.Shuffle(len(s.HTTPRoutes), func(i, j int) { s.HTTPRoutes[i], s.HTTPRoutes[j] = s.HTTPRoutes[j], s.HTTPRoutes[i] })
		if diff := cmp.Diff(got, gateways.Decide(s)); diff != "" {
			t.Errorf("seed %d: another order (-want +got):\n%.2000s", seed, diff)
		}
	}
	// Without these, the test could pass because its tables are small.
	if refused == 0 || largest < maxBytes/2 && most < maxRows/2 {
		t.Errorf("the largest table has %d bytes and %d rows, %d routes were refused", largest, most, refused)
	}
}

// rowsOf returns the number of rows that nginx's maps have for the matches of a table.
func rowsOf(table routes.Table) (rows int) {
	ports := map[int32]bool{}
	for _, l := range table.Listeners {
		ports[l.PodPort] = true
	}
	for port := range ports {
		for _, host := range table.VirtualHosts(port) {
			rows += len(host.Candidates)
		}
	}
	return rows
}

// TestLongMessage checks that the API server accepts the message of a condition, however many rules have a problem.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	rule := "{matches: [{headers: [{name: " + strings.Repeat("é", 100) + ", value: a}]}]}"
	got := gateways.Decide(state(t, main+"---\n"+route("  rules: ["+strings.Repeat(rule+", ", 99)+rule+"]")))
	message := got.Parents[name("edge", "shop")][0].Conditions[0].Message
	if len(message) > 2100 || !strings.Contains(message, "spec.rules[0].matches[0].headers[0].name") {
		t.Errorf("the message has %d bytes: %.100s", len(message), message)
	}
}
