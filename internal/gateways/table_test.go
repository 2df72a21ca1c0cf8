package gateways_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestTable checks which hosts, matches, filters and backends the table contains for a route.
func TestTable(t *testing.T) {
	t.Parallel()
	got := gateways.Decide(state(t, `
kind: Gateway
metadata: {name: main}
spec:
  listeners:
  - name: all
    port: 80
    protocol: HTTP
    allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}
  - {name: some, port: 80, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: All}}}
---
kind: HTTPRoute
metadata: {name: shop, namespace: team, uid: 0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9}
spec:
  parentRefs: [{name: main, namespace: edge}, {name: main, namespace: edge, sectionName: some}, {name: another}]
  hostnames: [www.example.com, "*.com", example.org]
  rules:
  - matches:
    - path: {type: Exact, value: /a%20b/}
      method: POST
    - path: {type: PathPrefix, value: /api/}
      headers: [{name: X-Version, value: "1"}, {name: x-version, value: "2"}]
      queryParams: [{name: page, value: "1"}, {name: Page, value: "2"}, {name: page, value: "3"}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: X-Set, value: a}], add: [{name: X-Add, value: b}], remove: [X-Remove]}
    backendRefs:
    - {name: web, port: 8080}
    - {name: headless, port: 80, weight: 3}
    - {name: none, port: 80, weight: 2}
    - {name: web, port: 80, weight: 0}
  - filters:
    - type: RequestRedirect
      requestRedirect: {scheme: https, hostname: example.org, port: 8443, statusCode: 301}
`)).Table
	want := routes.Table{
		Listeners: []routes.Listener{
			{
				Gateway: "edge/main", Name: "all", Port: 80, PodPort: 20000, Attached: []routes.Attachment{
					{Route: "team/shop", Hosts: []routes.Host{"*.com", "example.org", "www.example.com"}},
				},
			},
			{
				Gateway: "edge/main", Name: "some", Port: 80, PodPort: 20000, Host: "*.example.com", Attached: []routes.Attachment{
					{Route: "team/shop", Hosts: []routes.Host{"*.example.com", "www.example.com"}},
				},
			},
		},
		Routes: []routes.Route{{
			Namespace: "team", Name: "shop", Site: "111111112222.0a1b2c3d.shop", Rules: []routes.Rule{
				{
					Matches: []routes.Match{
						{Path: routes.Path{Value: "/a b/", Exact: true}, Method: "POST"},
						{
							Path: routes.Path{Value: "/api"}, Headers: []routes.Pair{{Name: "x-version", Value: "1"}},
							Query: []routes.Pair{{Name: "page", Value: "1"}, {Name: "Page", Value: "2"}},
						},
					},
					Headers: routes.HeaderChanges{
						Set: []routes.Pair{{Name: "X-Set", Value: "a"}}, Add: []routes.Pair{{Name: "X-Add", Value: "b"}},
						Remove: []string{"X-Remove"},
					},
					Backends: []routes.Backend{
						{Name: "team/web:8080", Host: "web.team.svc.cluster.local", Port: 8080, Weight: 1},
						{Name: "team/headless:80", Host: "headless.team.svc.cluster.local", Port: 3000, Weight: 3},
						{Name: "team/none:80", Weight: 2},
					},
				},
				{
					Matches:  []routes.Match{{Path: routes.Path{Value: "/"}}},
					Redirect: &routes.Redirect{Status: 301, Scheme: "https", Host: "example.org", Port: 8443},
				},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestRoom checks that a team cannot use up the room of another by large routes.
func TestRoom(t *testing.T) {
	t.Parallel()
	large := func(namespace, of string) string {
		r, rules := rand.New(rand.NewPCG(1, 2)), ""
		for range 100 {
			path := make([]byte, 1000) // of random letters, which do not get much smaller if they are compressed
			for i := range path {
				path[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(62)]
			}
			rules += "{matches: [{path: {type: PathPrefix, value: /" + string(path) + "}}]}, "
		}
		return fmt.Sprintf("kind: HTTPRoute\nmetadata: {name: %s, namespace: %s}\nspec: {parentRefs: [{name: main, "+
			"namespace: edge}], rules: [%s]}", of, namespace, rules)
	}
	got := gateways.Decide(state(t, strings.Join([]string{
		"kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, " +
			"allowedRoutes: {namespaces: {from: All}}}]}",
		large("team", "a"), large("team", "b"), large("other", "c"),
	}, "\n---\n")))
	for of, want := range map[types.NamespacedName]string{
		name("team", "a"): "True", name("team", "b"): "False", name("other", "c"): "True",
	} {
		if c := got.Parents[of][0].Conditions[0]; string(c.Status) != want || want == "False" && c.Reason != "NoRoom" {
			t.Errorf("%s: %s=%s %s: %s", of, c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// TestManyRefusedRoutes checks that the operator considers only some of a namespace's routes if very many are refused,
// and that the routes of another namespace are attached. Nobody knows whether the backends of the others exist.
func TestManyRefusedRoutes(t *testing.T) {
	t.Parallel()
	s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, "+
		"allowedRoutes: {namespaces: {from: All}}}]}")
	reasons := map[string]int{}
	for i := range 20 {
		r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("r%02d", i)}}
		if i == 19 {
			r.Namespace = "other"
		}
		r.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
		path := "/%FF"
		if i == 19 {
			path = "/"
		}
		r.Spec.Rules = []gw.HTTPRouteRule{{Matches: []gw.HTTPRouteMatch{{Path: &gw.HTTPPathMatch{Value: &path}}}}}
		s.HTTPRoutes = append(s.HTTPRoutes, r)
	}
	for _, parents := range gateways.Decide(s).Parents {
		conditions := parents[0].Conditions
		reasons[conditions[0].Reason]++
		isKnown := meta.FindStatusCondition(conditions, "ResolvedRefs") != nil
		if wasRead := conditions[0].Reason != "NoRoom"; isKnown != wasRead {
			t.Errorf("%s: ResolvedRefs is known: %t", conditions[0].Reason, isKnown)
		}
	}
	want := map[string]int{"UnsupportedValue": 12, "NoRoom": 7, "Accepted": 1} // four times MaxRoutesPerNamespace
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestBackendsOfNamespaces checks that a team cannot use up the backends of all teams.
func TestBackendsOfNamespaces(t *testing.T) {
	t.Parallel()
	s := state(t, "kind: Gateway\nmetadata: {name: main}")
	ports := map[int32]int32{}
	for p := range int32(1200) {
		ports[p+1] = p + 1
	}
	s.Services[name("edge", "many")] = gateways.Service{Ports: ports}
	s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 100, 100
	port := int32(0)
	for i := range 12 {
		r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: fmt.Sprintf("r%02d", i)}}
		r.Spec.ParentRefs = []gw.ParentReference{{Name: "main"}}
		for range 100 {
			port++
			ref := gw.HTTPBackendRef{}
			ref.Name, ref.Port = "many", new(port)
			r.Spec.Rules = append(r.Spec.Rules, gw.HTTPRouteRule{BackendRefs: []gw.HTTPBackendRef{ref}})
		}
		s.HTTPRoutes = append(s.HTTPRoutes, r)
	}
	if got := len(gateways.Decide(s).Table.Routes); got != 10 {
		t.Errorf("%d routes with 100 backends each are attached, want 10, because 1024 backends are the maximum", got)
	}
}

// TestBounds checks that older routes keep their places if there are more routes than the CacheNode allows.
func TestBounds(t *testing.T) {
	t.Parallel()
	objects := []string{
		"kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, " +
			"allowedRoutes: {namespaces: {from: All}}}]}",
	}
	for i, namespace := range []string{"team", "team", "edge", "team", "team", "other", "edge"} {
		objects = append(objects, fmt.Sprintf("kind: HTTPRoute\nmetadata: {name: r%d, namespace: %s, creationTimestamp: "+
			"\"2026-11-28T00:00:0%dZ\"}\nspec: {parentRefs: [{name: main, namespace: edge}], rules: [{}]}", i, namespace, 9-i))
	}
	got := gateways.Decide(state(t, strings.Join(objects, "\n---\n")))
	var attached []string
	for _, r := range got.Table.Routes {
		attached = append(attached, r.ID())
	}
	want := []string{"edge/r6", "other/r5", "team/r4", "team/r3"} // the oldest first
	if diff := cmp.Diff(want, attached); diff != "" {
		t.Errorf("attached routes (-want +got):\n%s", diff)
	}
	for _, refused := range []string{"edge/r2", "team/r1", "team/r0"} {
		namespace, of, _ := strings.Cut(refused, "/")
		if c := got.Parents[name(namespace, of)][0].Conditions[0]; c.Status != "False" || c.Reason != "NoRoom" {
			t.Errorf("%s: %s=%s %s", refused, c.Type, c.Status, c.Reason)
		}
	}
}

// TestRulesInSpec checks that a rule keeps its number although rules before it are left out.
func TestRulesInSpec(t *testing.T) {
	t.Parallel()
	const bad = "{matches: [{path: {type: RegularExpression, value: /a}}]}"
	good := func(path string) string { return "{matches: [{path: {value: " + path + "}}]}" }
	rules := strings.Join([]string{bad, good("/1"), good("/2"), bad, bad, good("/5"), bad}, ", ")
	r := gateways.Decide(state(t, main+"---\n"+route("  rules: ["+rules+"]"))).Table.Routes[0]
	if len(r.Rules) != 3 {
		t.Fatalf("%d rules, want 3", len(r.Rules))
	}
	for i, rule := range r.Rules {
		if got, want := fmt.Sprint("/", r.InSpec(i)), rule.Matches[0].Path.Value; got != want {
			t.Errorf("rule %d is spec.rules[%s], want %s", i, got[1:], want[1:])
		}
	}
}
