package gateways_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// everything is a route with everything that a table can contain.
const everything = `  hostnames: [a.example.com, "*.b.example.com"]
  rules:
  - matches: [{path: {type: Exact, value: /A}, method: GET}, {headers: [{name: x-a, value: "1"}]}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x, value: y}], remove: [z]}}]
    backendRefs: [{name: web, port: 80, weight: 3}, {name: gone, port: 80}]
  - matches: [{queryParams: [{name: q, value: v}]}]
    filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, hostname: c.example.com}}]
  - {}
`

// TestProgrammedRoutes checks what the status of a route says about the pods.
func TestProgrammedRoutes(t *testing.T) {
	t.Parallel()
	const kind, id = "cachenode.io/Programmed", "edge/shop"
	now, old := state(t, main+"---\n"+route(everything)), state(t, main+"---\n"+route("  rules: [{}]"))
	newest, before := decoded(t, gateways.Decide(now).Table), decoded(t, gateways.Decide(old).Table)
	all, lags := gateways.Running{Tables: []routes.Table{newest}}, gateways.Running{Tables: []routes.Table{newest, before}}
	unknown := gateways.Running{Tables: []routes.Table{newest}, Unknown: true}
	exclude := func(s *gateways.State) { s.Fleet.Allowed = gw.RouteNamespaces{From: new(gw.NamespacesFromNone)} }
	isNew := func(s *gateways.State) { s.HTTPRoutes[0].Status.Parents = nil }
	for of, tt := range map[string]struct {
		running gateways.Running
		change  func(*gateways.State)
		want    string
		isOld   bool // the condition stays as it was
	}{
		"all pods serve it":    {running: all, want: "True Programmed"},
		"one pod lags behind":  {running: lags, want: "False Pending"},
		"no pod is ready":      {want: "False Pending"},
		"a pod is not known":   {running: unknown, want: "True Programmed", isOld: true},
		"refused":              {running: all, change: exclude, want: "False Invalid"},
		"refused, not known":   {running: unknown, change: exclude, want: "False Invalid"},
		"a new route":          {all, isNew, "True Programmed", false},
		"a new route, unknown": {unknown, isNew, "False Pending", false},
		"an older version": {all, func(s *gateways.State) {
			s.Refused = map[string]gateways.Refused{id: {
				Forms: map[string]bool{newest.Fingerprint(id): true}, Good: before.Route(id),
			}}
		}, "False Invalid", false},
		"a listener without a certificate": {unknown, func(s *gateways.State) {
			s.Gateways[0].Spec.Listeners = append(s.Gateways[0].Spec.Listeners, gw.Listener{
				Name: "https", Port: 443, Protocol: gw.HTTPSProtocolType, TLS: &gw.ListenerTLSConfig{
					CertificateRefs: []gw.SecretObjectReference{{Name: "bad"}},
				},
			})
			s.HTTPRoutes[0].Spec.ParentRefs[0].SectionName = new(gw.SectionName("https"))
			s.HTTPRoutes[0].Status.Parents[0].ParentRef = s.HTTPRoutes[0].Spec.ParentRefs[0]
		}, "False Invalid", false},
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			s := state(t, main+"---\n"+route(everything))
			s.Running, s.HTTPRoutes[0].Generation = tt.running, 9
			s.HTTPRoutes[0].Status.Parents = []gw.RouteParentStatus{{
				ParentRef: s.HTTPRoutes[0].Spec.ParentRefs[0], ControllerName: gateways.Controller,
				Conditions: []metav1.Condition{{Type: kind, Status: "True", Reason: "Programmed", ObservedGeneration: 7}},
			}}
			if tt.change != nil {
				tt.change(&s)
			}
			c := meta.FindStatusCondition(gateways.Decide(s).Parents[name("edge", "shop")][0].Conditions, kind)
			if got := string(c.Status) + " " + c.Reason; got != tt.want || tt.isOld != (c.ObservedGeneration == 7) {
				t.Errorf("got %s (%s), want %s; observedGeneration is %d", got, c.Message, tt.want, c.ObservedGeneration)
			}
		})
	}
}

// decoded returns a table as it is read from a revision.
func decoded(t *testing.T, table routes.Table) (read routes.Table) {
	t.Helper()
	text, err := json.Marshal(table)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}
