package gateways_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// state returns a state with Gateways, HTTPRoutes and ReferenceGrants from YAML documents. A Gateway without listeners
// gets a listener for HTTP on port 80. An object without a namespace gets the namespace of the fleet.
func state(t *testing.T, documents string) gateways.State {
	t.Helper()
	s := gateways.State{
		Fleet: gateways.Fleet{
			NamespacedName: name("edge", "fleet"), MaxRoutes: 4, MaxRoutesPerNamespace: 3,
			ClusterDomain: "cluster.local",
			Allowed: gw.RouteNamespaces{From: new(gw.NamespacesFromSelector), Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"gateways": "yes"},
			}},
		},
		Namespaces: map[string]gateways.Namespace{
			"edge":  {UID: "0123456789abcdef", Labels: map[string]string{"gateways": "yes"}},
			"team":  {UID: "11111111-2222-3333-4444-555555555555", Labels: map[string]string{"team": "a"}},
			"other": {UID: "ffffffff-2222-3333-4444-555555555555"},
		},
		Services: map[types.NamespacedName]gateways.Service{
			name("edge", "web"):      {Ports: map[int32]int32{80: 80}},
			name("team", "web"):      {Ports: map[int32]int32{80: 80, 8080: 8080}},
			name("team", "headless"): {Ports: map[int32]int32{80: 3000}},
			name("team", "external"): {External: true},
		},
		Certificates: map[types.NamespacedName]gateways.Certificate{
			name("edge", "good"): {PEM: []byte("good")}, name("team", "good"): {PEM: []byte("good")},
			name("edge", "bad"):   {Problem: "no certificate"},
			name("edge", "large"): {PEM: make([]byte, 4<<20)},
		},
		Ports:     map[gateways.Port]int32{},
		Addresses: map[types.NamespacedName][]string{name("edge", "main"): {"10.0.0.1"}},
	}
	var grants []gw.ReferenceGrant
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var kind metav1.TypeMeta
		parse(t, document, &kind)
		switch kind.Kind {
		case "Gateway":
			var g gw.Gateway
			parse(t, document, &g)
			if g.Namespace = or(g.Namespace, "edge"); len(g.Spec.Listeners) == 0 {
				g.Spec.Listeners = []gw.Listener{{Name: "http", Port: 80, Protocol: gw.HTTPProtocolType}}
			}
			for _, l := range g.Spec.Listeners {
				if podPort, ok := map[int32]int32{80: 20000, 443: 20001}[l.Port]; ok {
					s.Ports[gateways.Port{Gateway: name(g.Namespace, g.Name), Number: l.Port}] = podPort
				}
			}
			s.Gateways = append(s.Gateways, g)
		case "HTTPRoute":
			var r gw.HTTPRoute
			parse(t, document, &r)
			r.Namespace, r.UID = or(r.Namespace, "edge"), types.UID(or(string(r.UID), "99999999-0000"))
			s.HTTPRoutes = append(s.HTTPRoutes, r)
		case "CachePolicy":
			var p v1alpha1.CachePolicy
			parse(t, document, &p)
			p.Namespace = or(p.Namespace, "edge")
			s.Policies = append(s.Policies, p)
		case "ReferenceGrant":
			var g gw.ReferenceGrant
			parse(t, document, &g)
			grants = append(grants, g)
		default:
			t.Fatalf("no kind: %s", document)
		}
	}
	s.Grants = gateways.NewGrants(grants)
	table := gateways.Decide(s).Table
	table.Listeners = slices.DeleteFunc(table.Listeners, func(l routes.Listener) bool { return l.PodPort != 20000 })
	s.Running = gateways.Running{Tables: []routes.Table{table}}
	return s
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func parse(t *testing.T, document string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		if _, ok := into.(*metav1.TypeMeta); ok && yaml.Unmarshal([]byte(document), into) == nil {
			return
		}
		t.Fatalf("%v\n%s", err, document)
	}
}

// summary returns one line for each status. The line contains the conditions that show a problem and, for a listener,
// the number of attached routes.
func summary(r gateways.Result) (lines []string) {
	usual := map[string]string{"Conflicted": "False"}
	conditions := func(list []metav1.Condition) (text string) {
		for _, c := range list {
			if c.Type == string(gateways.RouteConditionProgrammed) && c.Reason == "Invalid" {
				continue // other conditions show the problem; TestProgrammedRoutes checks this one
			}
			if want := or(usual[c.Type], "True"); string(c.Status) != want || c.Message != "" || c.Type == "PartiallyInvalid" {
				text += fmt.Sprintf(" %s=%s %s", c.Type, c.Status, c.Reason)
			}
		}
		return text
	}
	for of, g := range r.Gateways {
		lines = append(lines, "Gateway "+of.String()+":"+conditions(g.Conditions))
		for _, l := range g.Listeners {
			kinds := ""
			if len(l.SupportedKinds) == 0 {
				kinds = " no kinds"
			}
			lines = append(lines, fmt.Sprintf("Gateway %s, listener %s: %d routes%s%s",
				of, l.Name, l.AttachedRoutes, kinds, conditions(l.Conditions)))
		}
	}
	for of, parents := range r.Parents {
		for _, p := range parents {
			lines = append(lines, fmt.Sprintf("HTTPRoute %s, %s:%s", of, p.ParentRef.Name, conditions(p.Conditions)))
		}
	}
	slices.Sort(lines)
	return lines
}

const main = "kind: Gateway\nmetadata: {name: main}\n"

// route returns a route of namespace edge that is attached to the Gateway main.
func route(spec string) string {
	return "kind: HTTPRoute\nmetadata: {name: shop}\nspec:\n  parentRefs: [{name: main}]\n" + spec
}

// TestConditions checks the statuses that the objects get.
func TestConditions(t *testing.T) {
	t.Parallel()
	const gateway, listener = "Gateway edge/main:", "Gateway edge/main, listener http: "
	const backend = "  rules: [{backendRefs: [{name: web, port: 80}]}]\n"
	ofTeam := func(refs string) string {
		return "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, " +
			"allowedRoutes: {namespaces: {from: All}}}]}\n---\n" +
			"kind: HTTPRoute\nmetadata: {name: shop, namespace: team}\nspec:\n  parentRefs: [{name: main, namespace: edge}]\n" +
			"  rules: [{backendRefs: [" + refs + "]}]"
	}
	grant := func(to string) string {
		return "\n---\nkind: ReferenceGrant\nmetadata: {name: a, namespace: edge}\nspec: {from: " +
			"[{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team}], to: [" + to + "]}"
	}
	listeners := func(list string) string {
		return "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [" + list + "]}\n---\n" + route(backend)
	}
	https := func(refs string) string {
		return listeners("{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [" + refs + "]}}")
	}
	secretGrant := func(kind string) string {
		return "kind: ReferenceGrant\nmetadata: {name: a, namespace: team}\nspec: {from: " +
			"[{group: gateway.networking.k8s.io, kind: " + kind + ", namespace: edge}], to: [{group: '', kind: Secret}]}"
	}
	const secure = "Gateway edge/main, listener https: "
	const pending = "Gateway edge/main: Programmed=False Pending\n" +
		"HTTPRoute edge/shop, main: cachenode.io/Programmed=False Pending"
	const unresolved = "Gateway edge/main: Accepted=True ListenersNotValid Programmed=False Pending\n" +
		"HTTPRoute edge/shop, main:"
	const refused = "Programmed=False Invalid\n" +
		"Gateway edge/main: Accepted=False ListenersNotValid Programmed=False Invalid\n" +
		"HTTPRoute edge/shop, main: Accepted=False NotAllowedByListeners"
	const noRoom = "0 routes Accepted=False NoRoom " + refused
	const unsupported = "0 routes Accepted=False UnsupportedValue " + refused
	for name, tt := range map[string]struct{ objects, want string }{
		"all is well": {main + "---\n" + route(backend), gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main:"},
		"no route":    {main, gateway + "\n" + listener + "0 routes"},
		"a Gateway of a namespace that is not allowed": {
			"kind: Gateway\nmetadata: {name: main, namespace: team}",
			"Gateway team/main, listener http: 0 routes Accepted=False NamespaceNotAllowed Programmed=False Invalid\n" +
				"Gateway team/main: Accepted=False NamespaceNotAllowed Programmed=False Invalid",
		},
		"a chosen address": {
			"kind: Gateway\nmetadata: {name: main}\nspec: {addresses: [{value: 10.1.1.1}]}\n---\n" + route(backend),
			listener + "0 routes Accepted=False UnsupportedAddress Programmed=False Invalid\n" +
				gateway + " Accepted=False UnsupportedAddress Programmed=False Invalid\n" +
				"HTTPRoute edge/shop, main: Accepted=False UnsupportedAddress",
		},
		"any address": {
			"kind: Gateway\nmetadata: {name: main}\nspec: {addresses: [{type: IPAddress}]}",
			gateway + "\n" + listener + "0 routes",
		},
		"parameters of a Gateway": {
			"kind: Gateway\nmetadata: {name: main}\n" +
				"spec: {infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: a}}}",
			listener + "0 routes Accepted=False InvalidParameters Programmed=False Invalid\n" +
				gateway + " Accepted=False InvalidParameters Programmed=False Invalid",
		},
		"no address": {
			"kind: Gateway\nmetadata: {name: new}",
			"Gateway edge/new, listener http: 0 routes\nGateway edge/new: Programmed=False AddressNotAssigned",
		},
		"fields that have no effect": {
			strings.Replace(listeners("{name: http, port: 80, protocol: HTTP}"), "spec: {",
				"spec: {infrastructure: {labels: {a: b}}, allowedListeners: {}, tls: {backend: {}}, ", 1),
			listener + "1 routes\n" + gateway + " cachenode.io/Ignored=True UnsupportedField\nHTTPRoute edge/shop, main:",
		},
		"pods that do not listen yet": {
			listeners("{name: more, port: 443, protocol: HTTP}"),
			"Gateway edge/main, listener more: 1 routes Programmed=False Pending\n" +
				"Gateway edge/main: Programmed=False Pending\n" +
				"HTTPRoute edge/shop, main: cachenode.io/Programmed=False Pending",
		},
		"a protocol that is not supported": {
			listeners("{name: tcp, port: 80, protocol: TCP}"),
			"Gateway edge/main, listener tcp: 0 routes no kinds Accepted=False UnsupportedProtocol Programmed=False Invalid\n" +
				"Gateway edge/main: Accepted=False ListenersNotValid Programmed=False Invalid\n" +
				"HTTPRoute edge/shop, main: Accepted=False NotAllowedByListeners",
		},
		"one listener of two is not supported": {
			listeners("{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 443, protocol: TCP}"),
			listener + "1 routes\n" +
				"Gateway edge/main, listener tcp: 0 routes no kinds Accepted=False UnsupportedProtocol Programmed=False Invalid\n" +
				"Gateway edge/main: Accepted=True ListenersNotValid\nHTTPRoute edge/shop, main:",
		},
		"a listener for a wildcard with too many labels": {
			listeners("{name: http, port: 80, protocol: HTTP, hostname: '*." + strings.Repeat("a.", 11) + "b'}"),
			listener + unsupported,
		},
		"a port for which no port of the pods is left": {
			listeners("{name: http, port: 81, protocol: HTTP}"),
			listener + "0 routes Accepted=False PortUnavailable Programmed=False Invalid\n" +
				gateway + " Accepted=False ListenersNotValid Programmed=False Invalid\n" +
				"HTTPRoute edge/shop, main: Accepted=False NotAllowedByListeners",
		},
		"two listeners with the same host": {
			listeners("{name: http, port: 80, protocol: HTTP, hostname: a.b}, " +
				"{name: more, port: 80, protocol: HTTP, hostname: a.b}"),
			listener + "1 routes Accepted=False HostnameConflict Conflicted=True HostnameConflict Programmed=False Invalid\n" +
				"Gateway edge/main, listener more: 1 routes Accepted=False HostnameConflict Conflicted=True HostnameConflict " +
				"Programmed=False Invalid\nGateway edge/main: Accepted=False ListenersNotValid Programmed=False Invalid\n" +
				"HTTPRoute edge/shop, main:",
		},
		"a kind that is not supported": {
			listeners("{name: http, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}]}}"),
			listener + "0 routes no kinds Programmed=False Invalid ResolvedRefs=False InvalidRouteKinds\n" +
				gateway + " Accepted=True ListenersNotValid\nHTTPRoute edge/shop, main: Accepted=False NotAllowedByListeners",
		},
		"HTTPS": {
			https("{name: good}"), secure + "1 routes Programmed=False Pending\n" + pending,
		},
		"a Secret that does not exist": {
			https("{name: a/b}"),
			secure + "1 routes Programmed=False Invalid ResolvedRefs=False InvalidCertificateRef\n" + unresolved,
		},
		"a Secret without a certificate": {
			https("{name: bad}"),
			secure + "1 routes Programmed=False Invalid ResolvedRefs=False InvalidCertificateRef\n" + unresolved,
		},
		"another kind of Secret": {
			https("{name: good, kind: Vault}"),
			secure + "1 routes Programmed=False Invalid ResolvedRefs=False InvalidCertificateRef\n" + unresolved,
		},
		"a Secret of another namespace": {
			https("{name: good, namespace: team}"),
			secure + "1 routes Programmed=False Invalid ResolvedRefs=False RefNotPermitted\n" + unresolved,
		},
		"a Secret of another namespace, with a grant": {
			https("{name: good, namespace: team}") + "\n---\n" + secretGrant("Gateway"),
			secure + "1 routes Programmed=False Pending\n" + pending,
		},
		"a grant for routes instead of Gateways": {
			https("{name: good, namespace: team}") + "\n---\n" + secretGrant("HTTPRoute"),
			secure + "1 routes Programmed=False Invalid ResolvedRefs=False RefNotPermitted\n" + unresolved,
		},
		"a certificate that is too large for a namespace": {https("{name: large}"), secure + noRoom},
		"two certificates for one listener":               {https("{name: good}, {name: large}"), secure + unsupported},
		"certificates of clients": {
			strings.Replace(https("{name: good}"), "spec: {",
				"spec: {tls: {frontend: {default: {validation: {caCertificateRefs: []}}}}, ", 1),
			secure + unsupported,
		},
		"a parent without such a listener": {
			main + "---\n" + strings.Replace(route(backend), "{name: main}", "{name: main, sectionName: https}", 1),
			gateway + "\n" + listener + "0 routes\nHTTPRoute edge/shop, main: Accepted=False NoMatchingParent",
		},
		"another host": {
			listeners("{name: http, port: 80, protocol: HTTP, hostname: a.b}") + "  hostnames: [c.d]",
			listener + "0 routes\n" + gateway + "\nHTTPRoute edge/shop, main: Accepted=False NoMatchingListenerHostname",
		},
		"another namespace": {
			main + "---\nkind: HTTPRoute\nmetadata: {name: shop, namespace: team}\n" +
				"spec: {parentRefs: [{name: main, namespace: edge}]}",
			gateway + "\n" + listener + "0 routes\nHTTPRoute team/shop, main: Accepted=False NotAllowedByListeners",
		},
		"a Service that does not exist": {
			ofTeam("{name: none, port: 80}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False BackendNotFound",
		},
		"a port that the Service does not have": {
			ofTeam("{name: web, port: 81}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False BackendNotFound",
		},
		"another kind of backend": {
			ofTeam("{name: web, group: example.com, kind: Store}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False InvalidKind",
		},
		"a Service with an external name": {
			ofTeam("{name: external, port: 80}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False UnsupportedProtocol",
		},
		"a Service of another namespace": {
			ofTeam("{name: web, namespace: edge, port: 80}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False RefNotPermitted",
		},
		"a Service of another namespace, with a grant": {
			ofTeam("{name: web, namespace: edge, port: 80}") + grant("{group: '', kind: Service}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main:",
		},
		"a grant for another Service": {
			ofTeam("{name: web, namespace: edge, port: 80}") + grant("{group: '', kind: Service, name: db}"),
			listener + "1 routes\n" + gateway + "\nHTTPRoute team/shop, main: ResolvedRefs=False RefNotPermitted",
		},
		"one rule of two is not supported": {
			main + "---\n" + route("  rules: [{matches: [{path: {type: RegularExpression, value: /a}}]}, {}]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue",
		},
		"a path that is too long for nginx": {
			main + "---\n" + route("  rules: [{matches: [{path: {value: \"/"+strings.Repeat(",", 1000)+"\"}}]}, {}]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue",
		},
		"a header that is too long for nginx": {
			main + "---\n" + route("  rules: [{matches: [{headers: [{name: a, value: "+strings.Repeat("b", 4096)+"}]}]}, {}]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue",
		},
		"an argument that is too long for nginx": {
			main + "---\n" + route("  rules: [{matches: [{queryParams: [{name: a, value: "+
				strings.Repeat("b", 1024)+"}]}]}, {}]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue",
		},
		"a header to set that is too long for nginx": {
			main + "---\n" + route("  rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: "+
				"[{name: a, value: "+strings.Repeat("b", 4096)+"}]}}]}, {}]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue",
		},
		"a wildcard with too many labels": {
			main + "---\n" + route("  hostnames: ['*."+strings.Repeat("a.", 11)+"b']"),
			gateway + "\n" + listener + "0 routes\nHTTPRoute edge/shop, main: Accepted=False UnsupportedValue",
		},
		"a wildcard with the most labels": {
			main + "---\n" + route("  hostnames: ['*."+strings.Repeat("a.", 10)+"b', "+strings.Repeat("a.", 30)+"b]"),
			gateway + "\n" + listener + "1 routes\nHTTPRoute edge/shop, main:",
		},
		"no rule is supported": {
			main + "---\n" + route("  rules: [{filters: [{type: CORS, cors: {}}]}]"),
			gateway + "\n" + listener + "0 routes\nHTTPRoute edge/shop, main: Accepted=False UnsupportedValue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Split(tt.want, "\n")
			slices.Sort(want)
			if diff := cmp.Diff(want, summary(gateways.Decide(state(t, tt.objects)))); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingCacheNode checks that the Gateways and routes of a CacheNode that does not exist say so.
func TestMissingCacheNode(t *testing.T) {
	t.Parallel()
	s := state(t, main+"---\n"+route(""))
	s.Fleet = gateways.FleetFor(s.Fleet.NamespacedName, nil, "cluster.local")
	const want = "InvalidParameters: CacheNode edge/fleet does not exist"
	problems := gateways.Decide(s).Problems()
	if len(problems) != 3 {
		t.Errorf("%d problems, want those of the Gateway, its listener and the route", len(problems))
	}
	for _, p := range problems {
		if !strings.HasSuffix(p.Text, want) {
			t.Errorf("%s %s: %q, want %q", p.Kind, p.Object, p.Text, want)
		}
	}
}

// TestProtocols checks that a Service whose port does not understand HTTP/1.1 is no backend.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]string{
		"": "", "http": "", "kubernetes.io/h2c": "UnsupportedProtocol", "kubernetes.io/wss": "UnsupportedProtocol",
	} {
		s := state(t, main+"---\n"+route("  rules: [{backendRefs: [{name: web, port: 80}]}]"))
		s.Services[name("edge", "web")] = gateways.ServiceOf(&corev1.Service{Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 80, AppProtocol: &protocol}},
		}}, nil)
		reason := ""
		for _, p := range gateways.Decide(s).Problems() {
			_, reason, _ = strings.Cut(p.Text, ": ")
			reason, _, _ = strings.Cut(reason, ":")
		}
		if reason != want {
			t.Errorf("appProtocol %q: %q, want %q", protocol, reason, want)
		}
	}
}

// TestChangedListener checks that a listener with another hostname is not programmed before all ready pods serve it.
func TestChangedListener(t *testing.T) {
	t.Parallel()
	s := state(t, main)
	programmed := func() bool {
		status := gateways.Decide(s).Gateways[name("edge", "main")]
		return meta.IsStatusConditionTrue(status.Listeners[0].Conditions, string(gw.ListenerConditionProgrammed))
	}
	if !programmed() {
		t.Error("all pods serve the listener, and it is not programmed")
	}
	s.Gateways[0].Spec.Listeners[0].Hostname = new(gw.Hostname("b.example.com"))
	if programmed() {
		t.Error("no pod serves the other hostname, and the listener is programmed")
	}
}

// TestUnresolvedBackends checks that a condition names all backends that cannot be used, so that a team need not find
// them one after another.
func TestUnresolvedBackends(t *testing.T) {
	t.Parallel()
	s := state(t, `kind: Gateway
metadata: {name: main}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: main}]
  rules:
  - backendRefs: [{name: web, port: 81}, {name: web, port: 80}]
  - backendRefs: [{name: web, kind: Store, port: 80}, {name: none, port: 80}]
  - backendRefs: [{name: "x\e[2J\nRoute: team/fine", port: 80}]
`)
	c := meta.FindStatusCondition(gateways.Decide(s).Parents[name("edge", "shop")][0].Conditions, "ResolvedRefs")
	want := "spec.rules[0].backendRefs[0]: Service edge/web has no port 81; " +
		`spec.rules[1].backendRefs[0]: Store of group "" is not supported: name a Service; ` +
		"spec.rules[1].backendRefs[1]: Service edge/none does not exist; " +
		`spec.rules[2].backendRefs[0]: "x\x1b[2J\nRoute: team/fine" is no name of a Service`
	if c.Reason != "BackendNotFound" || c.Message != want {
		t.Errorf("%s: %s\nwant %s", c.Reason, c.Message, want)
	}
}
