package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// aFleet is a CacheNode that serves only Gateways.
const aFleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  gateways: {allowedNamespaces: {from: All}}
`

const aGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec:
  controllerName: cachenode.io/gateway
  parametersRef: {group: cachenode.io, kind: CacheNode, name: edge, namespace: default}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: team}
spec:
  gatewayClassName: edge
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: team}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: team}
spec:
  parentRefs: [{name: shop}]
  hostnames: [shop.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

// gatewayOperator returns an operator with the controllers of the Gateway API, and with the namespace team.
func gatewayOperator(t *testing.T) *operator {
	t.Helper()
	o := startOperator(t, apiserver.Start(t, apiserver.GatewayAPI(t)...), func(r *CacheNodeReconciler) {
		r.Exchange = NewGatewayExchange()
	})
	must(t, o.client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
	return o
}

// apply creates the objects of YAML documents.
func (o *operator) apply(documents string) {
	o.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var kind metav1.TypeMeta
		must(o.t, yaml.Unmarshal([]byte(document), &kind))
		object, err := o.client.Scheme().New(kind.GroupVersionKind())
		must(o.t, err)
		must(o.t, yaml.UnmarshalStrict([]byte(document), object))
		must(o.t, o.client.Create(context.Background(), object.(client.Object)))
	}
}

func team(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "team"} }

// table returns the routes that were decided for a CacheNode.
func (o *operator) table(cacheNode *v1alpha1.CacheNode) routes.Table {
	o.t.Helper()
	e := o.reconciler.Exchange
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.tables[client.ObjectKeyFromObject(cacheNode)]
}

// condition returns the status and the reason of a condition, separated by a space; "" if it does not exist.
func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// TestGateway checks what a Gateway with a route gets, that a pass at rest writes nothing, and that nothing is left
// after the Gateway is deleted.
func TestGateway(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(aGateway)
	cacheNode := o.create(aFleet)
	o.settle(cacheNode)

	class := &gw.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	gateway, route := &gw.Gateway{ObjectMeta: team("shop")}, &gw.HTTPRoute{ObjectMeta: team("shop")}
	o.get(class)
	o.get(gateway)
	o.get(route)
	service := o.gatewayService("shop")
	if service == nil || service.Spec.Ports[0].Port != 80 || service.Spec.Ports[0].TargetPort.IntVal != 20000 {
		t.Fatalf("the Service of the Gateway is %v", service)
	}
	got := map[string]string{
		"class":   condition(class.Status.Conditions, "Accepted"),
		"version": condition(class.Status.Conditions, "SupportedVersion"),
		"gateway": condition(gateway.Status.Conditions, "Accepted"),
		"route":   condition(route.Status.Parents[0].Conditions, "Accepted"),
		"pods":    condition(route.Status.Parents[0].Conditions, "cachenode.io/Programmed"),
		"refs":    condition(route.Status.Parents[0].Conditions, "ResolvedRefs"),
		"routes":  fmt.Sprint(gateway.Status.Listeners[0].AttachedRoutes),
		"address": gateway.Status.Addresses[0].Value,
	}
	want := map[string]string{
		"class": "True Accepted", "version": "True SupportedVersion", "gateway": "True Accepted",
		"route": "True Accepted", "pods": "False Pending", "refs": "True ResolvedRefs",
		"routes": "1", "address": service.Spec.ClusterIP,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	o.writesNothing(cacheNode, 3)

	must(t, o.client.Delete(context.Background(), class)) // it stays as long as it has Gateways
	o.settle(cacheNode)
	if o.gatewayService("shop") == nil {
		t.Error("the Gateway of a class that is being deleted has no Service")
	}
	o.get(class)
	if c := meta.FindStatusCondition(class.Status.Conditions, "Accepted"); !strings.Contains(c.Message, "being deleted") {
		t.Errorf("the class that is being deleted says %s: %q", c.Reason, c.Message)
	}
	must(t, o.client.Delete(context.Background(), gateway))
	o.eventually(func() string {
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(class), class); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the class has the finalizers %v, %v", class.Finalizers, err)
		}
		o.get(route)
		if len(route.Status.Parents) > 0 {
			return "the route has parents"
		}
		if o.gatewayService("shop") != nil {
			return "the Service is there"
		}
		if n := len(o.table(cacheNode).Listeners); n > 0 {
			return fmt.Sprintf("%d listeners are served", n)
		}
		return ""
	})
}

// gatewayService returns the Service of a Gateway of the namespace team; nil if it does not exist.
func (o *operator) gatewayService(gateway string) *corev1.Service {
	o.t.Helper()
	service := &corev1.Service{}
	err := o.client.Get(context.Background(),
		types.NamespacedName{Namespace: "default", Name: naming.Gateway("team", gateway)}, service)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(o.t, err)
	return service
}

// TestGatewayInAnyOrder checks that the statuses and the routes do not depend on the order in which objects are
// created, and that each object can be deleted at any time.
func TestGatewayInAnyOrder(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	parts := strings.Split(aGateway, "\n---\n")
	slices.Reverse(parts)
	o.apply(strings.Join(parts, "\n---\n"))
	cacheNode := o.create(aFleet)
	serves := func() string {
		table := o.table(cacheNode)
		if len(table.Routes) != 1 || len(table.Listeners) != 1 || len(table.Listeners[0].Attached) != 1 {
			return fmt.Sprintf("the routes are %+v", table)
		}
		return ""
	}
	o.eventually(serves)
	for name, tt := range map[string]struct {
		object client.Object
		status func() string
		want   string
	}{
		"the Service": {&corev1.Service{ObjectMeta: team("web")}, func() string {
			route := &gw.HTTPRoute{ObjectMeta: team("shop")}
			o.get(route)
			if len(route.Status.Parents) == 0 {
				return ""
			}
			return condition(route.Status.Parents[0].Conditions, "ResolvedRefs")
		}, "False BackendNotFound"},
		"the CacheNode": {cacheNode, func() string {
			gateway := &gw.Gateway{ObjectMeta: team("shop")}
			o.get(gateway)
			return condition(gateway.Status.Conditions, "Accepted")
		}, "False InvalidParameters"},
	} {
		again := tt.object.DeepCopyObject().(client.Object)
		o.get(again)
		must(t, o.client.Delete(context.Background(), tt.object))
		o.eventually(func() string {
			if got := tt.status(); got != tt.want {
				return fmt.Sprintf("without %s, the condition is %q, want %q", name, got, tt.want)
			}
			return ""
		})
		again.SetResourceVersion("")
		must(t, o.client.Create(context.Background(), again))
		o.eventually(serves)
	}
}

// TestAddressOfAGateway checks that a Gateway keeps its Service, its address and its ports while the CacheNode does not
// serve it, because a new Service would have another address.
func TestAddressOfAGateway(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(aGateway)
	cacheNode := o.create(aFleet + "  origin: {servers: [{host: origin.example.com}]}\n")
	o.settle(cacheNode)
	gateway := &gw.Gateway{ObjectMeta: team("shop")}
	o.get(gateway)
	before, addresses := o.gatewayService("shop"), gateway.Status.Addresses
	allowed, same := cacheNode.Spec.Gateways.DeepCopy(), cacheNode.Spec.Gateways.DeepCopy()
	same.AllowedNamespaces.From = "Same"
	for name, change := range map[string]struct {
		gateways *v1alpha1.Gateways
		want     string
	}{
		"other namespaces": {same, "False NamespaceNotAllowed"},
		"no Gateways":      {nil, "False InvalidParameters"},
	} {
		for _, step := range []struct {
			gateways  *v1alpha1.Gateways
			want      string
			listeners int
		}{{change.gateways, change.want, 0}, {allowed, "True Accepted", 1}} {
			o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Gateways = step.gateways })
			o.eventually(func() string {
				o.get(gateway)
				got := condition(gateway.Status.Conditions, "Accepted")
				if n := len(o.table(cacheNode).Listeners); got != step.want || n != step.listeners {
					return fmt.Sprintf("%s: Accepted is %s, want %s; %d listeners", name, got, step.want, n)
				}
				return ""
			})
			after := o.gatewayService("shop")
			if after == nil || after.UID != before.UID || !slices.Equal(after.Spec.Ports, before.Spec.Ports) {
				t.Errorf("%s: the Service is %v", name, after)
			}
			if diff := gocmp.Diff(addresses, gateway.Status.Addresses); diff != "" {
				t.Errorf("%s: the addresses (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestClassesWithoutACacheNode checks that the Gateways of a class that no longer refers to a CacheNode say so, and
// lose their Services. A class for a CacheNode in a namespace that this operator does not watch belongs to another
// operator.
func TestClassesWithoutACacheNode(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(aGateway)
	cacheNode := o.create(aFleet)
	o.settle(cacheNode)
	class, gateway := &gw.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}, &gw.Gateway{ObjectMeta: team("shop")}
	o.get(class)
	fleet := class.Spec.ParametersRef
	const want = "False InvalidParameters"
	for name, ref := range map[string]*gw.ParametersReference{
		"none": nil, "another kind": {Kind: "ConfigMap", Name: "a", Namespace: fleet.Namespace},
	} {
		refer := func(to *gw.ParametersReference) {
			o.get(class)
			class.Spec.ParametersRef = to
			must(t, o.client.Update(context.Background(), class))
		}
		refer(ref)
		o.eventually(func() string {
			o.get(gateway)
			o.get(class)
			if got := condition(gateway.Status.Conditions, "Accepted"); got != want || len(gateway.Status.Addresses) > 0 {
				return fmt.Sprintf("%s: the Gateway is %s, with the addresses %v", name, got, gateway.Status.Addresses)
			}
			if got := condition(class.Status.Conditions, "Accepted"); got != want {
				return fmt.Sprintf("%s: the class is %s", name, got)
			}
			if o.gatewayService("shop") != nil {
				return name + ": the Service is there"
			}
			return ""
		})
		refer(fleet)
		o.eventually(func() string {
			o.get(gateway)
			return strings.TrimPrefix(condition(gateway.Status.Conditions, "Accepted"), "True Accepted")
		})
	}
	foreign := &gw.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: class.Spec}
	foreign.Spec.ParametersRef = fleet.DeepCopy()
	foreign.Spec.ParametersRef.Namespace = new(gw.Namespace("elsewhere"))
	must(t, o.client.Create(context.Background(), foreign))
	o.settle(cacheNode)
	o.get(foreign)
	if got := condition(foreign.Status.Conditions, "Accepted"); got != "Unknown Pending" {
		t.Errorf("the class of another operator is %s", got)
	}
}

// TestBackendOfAnUnwatchedNamespace checks that a reference to a Service in a namespace that the operator does not
// watch is a problem of the route alone.
func TestBackendOfAnUnwatchedNamespace(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: team, namespace: kube-public}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team}]
  to: [{group: "", kind: Service}]
---
apiVersion: v1
kind: Service
metadata: {name: hidden, namespace: kube-public}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bad, namespace: team}
spec:
  parentRefs: [{name: shop}]
  rules: [{backendRefs: [{name: hidden, namespace: kube-public, port: 80}]}]
---` + aGateway)
	cacheNode := o.create(aFleet)
	o.settle(cacheNode)
	for name, want := range map[string]string{"bad": "False BackendNotFound", "shop": "True ResolvedRefs"} {
		route := &gw.HTTPRoute{ObjectMeta: team(name)}
		o.get(route)
		if len(route.Status.Parents) != 1 {
			t.Errorf("route %s: %d parents", name, len(route.Status.Parents))
		} else if got := condition(route.Status.Parents[0].Conditions, "ResolvedRefs"); got != want {
			t.Errorf("route %s: the condition is %q, want %q", name, got, want)
		}
	}
}

// TestEndpointsOfAHeadlessService checks that requests go to the port of the endpoints, also after that port changes,
// and that a pass at rest reads nothing from the API server for it.
func TestEndpointsOfAHeadlessService(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(strings.Replace(aGateway, "spec: {ports: [{port: 80}]}", "spec: {clusterIP: None, ports: [{port: 80}]}", 1))
	cacheNode := o.create(aFleet)
	port := int32(3000)
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta: team("web-1"), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new(""), Port: new(port)}},
	}
	endpoints.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	sends := func() string {
		table := o.table(cacheNode)
		if len(table.Routes) != 1 || table.Routes[0].Rules[0].Backends[0].Port != port {
			return fmt.Sprintf("the routes are %+v, want port %d", table.Routes, port)
		}
		return ""
	}
	must(t, o.client.Create(context.Background(), endpoints))
	o.eventually(sends)
	port = 4000
	endpoints.Ports[0].Port = new(port)
	must(t, o.client.Update(context.Background(), endpoints))
	o.eventually(sends)
	o.writesNothing(cacheNode, 3)
}

// TestLargeRevision checks that a revision with many routes is compressed in the ConfigMap, and that it is read again,
// also by another operator.
func TestLargeRevision(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(aGateway)
	cacheNode := o.create(aFleet)
	o.settle(cacheNode)
	configMap := &corev1.ConfigMap{}
	configMap.Name, configMap.Namespace = naming.ConfigMap(cacheNode.Name), cacheNode.Namespace
	route := &gw.HTTPRoute{ObjectMeta: team("shop")}
	small := []gw.HTTPRouteRule{}
	for name, tt := range map[string]struct {
		paths    int
		isPacked bool
	}{"many paths": {100, true}, "one path": {1, false}} {
		o.get(route)
		if len(small) == 0 {
			small = route.Spec.Rules
		}
		rules := []gw.HTTPRouteRule{}
		for i := range tt.paths {
			if i%50 == 0 { // a rule has at most 64 matches
				rules = append(rules, gw.HTTPRouteRule{BackendRefs: small[0].BackendRefs})
			}
			path := gw.HTTPPathMatch{
				Type: new(gw.PathMatchPathPrefix), Value: new(fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 1000))),
			}
			last := &rules[len(rules)-1]
			last.Matches = append(last.Matches, gw.HTTPRouteMatch{Path: &path})
		}
		before := route.DeepCopy()
		route.Spec.Rules = rules
		must(t, o.client.Patch(context.Background(), route, client.MergeFrom(before)))
		o.eventually(func() string {
			o.get(configMap)
			offered := readOffered(configMap)
			newest := cmp.Or(offered.candidate, offered.stable)
			if newest == nil || len(newest.Routes.Routes) != 1 || len(newest.Routes.Routes[0].Rules) != len(rules) {
				return name + ": the ConfigMap has another revision"
			}
			return ""
		})
		o.eventually(func() string { // decisions start from what the operator's cache contains
			cached := configMap.DeepCopy()
			must(t, o.cached.Get(context.Background(), client.ObjectKeyFromObject(cached), cached))
			if offered := readOffered(cached); offered.stable == nil {
				return name + ": the operator's cache has no stable revision"
			}
			return ""
		})
		if got := len(configMap.BinaryData) > 0; got != tt.isPacked {
			t.Errorf("%s: compressed: %t, want %t", name, got, tt.isPacked)
		}
	}
}

// TestCertificateOfAGateway checks how the certificate of a listener reaches the pods: the operator's Secret contains
// it before a revision names it, a renewal changes the Secret and no revision, and the Secret is emptied in the end.
func TestCertificateOfAGateway(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(strings.Replace(aGateway, "port: 80, protocol: HTTP",
		"port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}", 1))
	cacheNode := o.create(aFleet)
	gateway := &gw.Gateway{ObjectMeta: team("shop")}
	becomes := func(want string) {
		t.Helper()
		o.eventually(func() string {
			o.get(gateway)
			if len(gateway.Status.Listeners) == 0 {
				return "there is no listener"
			}
			got := condition(gateway.Status.Listeners[0].Conditions, "ResolvedRefs")
			if got != want {
				return fmt.Sprintf("the condition is %q, want %q", got, want)
			}
			return ""
		})
	}
	becomes("False InvalidCertificateRef")
	if n := len(o.table(cacheNode).Listeners); n > 0 {
		t.Errorf("%d listeners without a certificate are served", n)
	}
	secret := func() *corev1.Secret {
		chain, key := selfSigned(t)
		return &corev1.Secret{
			ObjectMeta: team("web"), Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": chain, "tls.key": key},
		}
	}
	first := secret()
	must(t, o.client.Create(context.Background(), first))
	becomes("True ResolvedRefs")
	o.settle(cacheNode)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	o.get(namespace)
	id := naming.Certificate(namespace.UID, types.NamespacedName{Namespace: "team", Name: "web"})
	delivered := func() (text []byte, revision string) {
		own, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
		own.Name, own.Namespace = naming.Certificates(cacheNode.Name, 0), cacheNode.Namespace
		o.get(own)
		configMap.Name, configMap.Namespace = naming.ConfigMap(cacheNode.Name), cacheNode.Namespace
		o.get(configMap)
		newest := readOffered(configMap)
		return own.Data[id], cmp.Or(newest.candidate, newest.stable).ID
	}
	want := gateways.NewCertificate(first).PEM
	text, revision := delivered()
	if string(text) != string(want) || want == nil {
		t.Errorf("the Secret of the pods contains %q, want %q", text, want)
	}
	if got := o.table(cacheNode).Certificates(); len(got) != 1 || got[0] != id {
		t.Errorf("the listeners have the certificates %q", got)
	}
	o.writesNothing(cacheNode, 3)

	second := secret()
	must(t, o.client.Update(context.Background(), second))
	o.eventually(func() string {
		text, now := delivered()
		if now != revision {
			t.Fatalf("a renewal makes the revision %s of %s", now, revision)
		}
		if string(text) != string(gateways.NewCertificate(second).PEM) {
			return "the Secret of the pods has the old certificate"
		}
		return ""
	})
	must(t, o.client.Delete(context.Background(), gateway))
	o.eventually(func() string {
		if text, _ := delivered(); text != nil {
			return "the Secret of the pods still has the certificate"
		}
		return ""
	})
}

// TestTakenCertificates checks that a certificate that cannot be delivered keeps only its own listener from the pods.
// The Secret for it has the operator's name, but belongs to somebody else.
func TestTakenCertificates(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: naming.Certificates("edge", 0), Namespace: "default"}}
	must(t, o.client.Create(context.Background(), foreign))
	o.apply(strings.Replace(aGateway, "listeners: [", "listeners: [{name: https, port: 443, protocol: HTTPS, "+
		"tls: {certificateRefs: [{name: web}]}}, ", 1))
	chain, key := selfSigned(t)
	must(t, o.client.Create(context.Background(), &corev1.Secret{
		ObjectMeta: team("web"), Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": chain, "tls.key": key},
	}))
	cacheNode := o.create(aFleet)
	serves := func(want string) {
		t.Helper()
		o.eventually(func() string {
			var got []string
			for _, l := range o.table(cacheNode).Listeners {
				got = append(got, l.Name)
			}
			if strings.Join(got, " ") != want {
				return fmt.Sprintf("the listeners %v are served, want %s", got, want)
			}
			return ""
		})
	}
	serves("http")
	must(t, o.client.Delete(context.Background(), foreign))
	serves("https http")
}
