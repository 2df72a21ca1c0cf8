package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gw "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// These tests make single passes over Gateways, and do something in the middle of a pass. No real API server lets a
// test do that, so its place is taken by a fake.

// cacheOf is a cache that reads from a client.
type cacheOf struct {
	cache.Cache
	client.Reader
}

func (c cacheOf) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return c.Reader.Get(ctx, key, o, options...)
}

func (c cacheOf) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.Reader.List(ctx, list, options...)
}

// hooked is a client that calls meanwhile once, when a pass lists Services. late are names of Services that its cache
// does not show yet.
type hooked struct {
	client.Client
	meanwhile func()
	late      map[string]bool
}

func (h *hooked) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := h.Client.List(ctx, list, options...)
	if services, ok := list.(*corev1.ServiceList); ok {
		if f := h.meanwhile; f != nil {
			h.meanwhile = nil
			f()
		}
		services.Items = slices.DeleteFunc(services.Items, func(s corev1.Service) bool { return h.late[s.Name] })
	}
	return err
}

// singlePasses makes single passes over the Gateways of a CacheNode.
type singlePasses struct {
	t *testing.T
	*hooked
	of       *GatewayReconciler
	exchange *GatewayExchange
	fleet    types.NamespacedName
}

// object returns the object in a YAML document.
func object[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	must(t, yaml.UnmarshalStrict([]byte(text), o))
	return o
}

// gatewayOf returns a Gateway with a listener for HTTP at port 80.
func gatewayOf(namespace, name string, age int64) *gw.Gateway {
	return &gw.Gateway{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(age, 0),
		},
		Spec: gw.GatewaySpec{GatewayClassName: "edge", Listeners: []gw.Listener{
			{Name: "http", Port: 80, Protocol: gw.HTTPProtocolType},
		}},
	}
}

func newSinglePasses(t *testing.T, objects ...client.Object) *singlePasses {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(aFleet))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	cacheNode.UID = "1"
	documents := strings.Split(aGateway, "\n---\n")
	objects = append(objects, cacheNode,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "11111111-1111-1111-1111-111111111111"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "22222222-2222-2222-2222-222222222222"}},
		object[gw.GatewayClass](t, documents[0]), object[corev1.Service](t, documents[2]),
		object[gw.HTTPRoute](t, documents[3]))
	c := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&gw.Gateway{}, &gw.HTTPRoute{}).Build()
	s := &singlePasses{
		t: t, hooked: &hooked{Client: c}, exchange: NewGatewayExchange(), fleet: client.ObjectKeyFromObject(cacheNode),
	}
	s.of = &GatewayReconciler{
		Client: s.hooked, Live: c, Exchange: s.exchange, Grants: true, ClusterDomain: "cluster.local",
		Backends: cacheOf{Reader: c}, Certificates: cacheOf{Reader: c},
	}
	for _, queue := range []*workqueue.TypedRateLimitingInterface[reconcile.Request]{
		&s.exchange.toGateways, &s.exchange.toCacheNodes,
	} {
		*queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup((*queue).ShutDown)
	}
	s.exchange.setListening(s.fleet, listening{}, true)
	return s
}

func (s *singlePasses) pass() {
	s.t.Helper()
	_, err := s.of.Reconcile(context.Background(), reconcile.Request{NamespacedName: s.fleet})
	must(s.t, err)
}

// isDue returns true if the exchange has caused a pass over the Gateways, and takes the request for it.
func (s *singlePasses) isDue() bool {
	if s.exchange.toGateways.Len() == 0 {
		return false
	}
	request, _ := s.exchange.toGateways.Get()
	s.exchange.toGateways.Done(request)
	return true
}

// edit sets the path of the route.
func (s *singlePasses) edit(path string) {
	s.t.Helper()
	route := &gw.HTTPRoute{}
	must(s.t, s.Get(context.Background(), types.NamespacedName{Namespace: "team", Name: "shop"}, route))
	route.Spec.Rules[0].Matches = []gw.HTTPRouteMatch{{Path: &gw.HTTPPathMatch{Value: &path}}}
	must(s.t, s.Update(context.Background(), route))
}

// programmed returns the status of the route's condition cachenode.io/Programmed.
func (s *singlePasses) programmed() string {
	s.t.Helper()
	route := &gw.HTTPRoute{}
	must(s.t, s.Get(context.Background(), types.NamespacedName{Namespace: "team", Name: "shop"}, route))
	return condition(route.Status.Parents[0].Conditions, "cachenode.io/Programmed")
}

// ports returns the port of the pods to which the Service of each Gateway leads.
func (s *singlePasses) ports() map[string]int32 {
	s.t.Helper()
	list, ports := &corev1.ServiceList{}, map[string]int32{}
	must(s.t, s.Client.List(context.Background(), list, client.InNamespace("default")))
	for _, service := range list.Items {
		ports[service.Annotations[naming.AnnotationGateway]] = service.Spec.Ports[0].TargetPort.IntVal
	}
	return ports
}

// change edits the spec of the CacheNode.
func (s *singlePasses) change(change func(*v1alpha1.CacheNodeSpec)) {
	s.t.Helper()
	cacheNode := &v1alpha1.CacheNode{}
	must(s.t, s.Get(context.Background(), s.fleet, cacheNode))
	change(&cacheNode.Spec)
	must(s.t, s.Update(context.Background(), cacheNode))
}

// serves returns passes over a Gateway with a route, after all pods serve the route with the path /a. It also returns
// what a pass of the CacheNode reports then.
func serves(t *testing.T) (s *singlePasses, rest listening) {
	t.Helper()
	s = newSinglePasses(t, gatewayOf("team", "shop", 1))
	s.edit("/a")
	s.pass()
	table, _ := s.exchange.table(s.fleet)
	rest = listening{running: map[string]routes.Table{"a": table}}
	s.exchange.setListening(s.fleet, rest, true)
	s.pass()
	s.isDue()
	if got := s.programmed(); got != "True Programmed" {
		t.Fatal(got)
	}
	return s, rest
}

// TestProgrammedTooEarly checks that a route that was edited and reverted is not Programmed while a pass of the other
// controller that got the edit is about to offer it to the pods.
func TestProgrammedTooEarly(t *testing.T) {
	t.Parallel()
	s, rest := serves(t)
	s.edit("/b")
	s.pass()
	s.edit("/a")
	s.meanwhile = func() {
		s.exchange.setListening(s.fleet, rest, true)
		s.exchange.table(s.fleet) // with /b
	}
	s.pass()
	if got := s.programmed(); got != "False Pending" {
		t.Errorf("the route is %s while /b is about to be offered", got)
	}
	s.exchange.setListening(s.fleet, rest, true) // it was not offered, because the pass has failed
	if !s.isDue() {
		t.Error("no pass over the Gateways is due")
	}
	s.pass()
	if got := s.programmed(); got != "True Programmed" {
		t.Errorf("the route is %s at last", got)
	}
}

// TestProgrammedAtLast checks that a route does not stay Pending if the pass that got its edit ends, without an offer,
// while a pass over the Gateways decides otherwise.
func TestProgrammedAtLast(t *testing.T) {
	t.Parallel()
	s, rest := serves(t)
	s.edit("/b")
	s.pass()
	s.exchange.setListening(s.fleet, rest, true)
	s.exchange.table(s.fleet)
	s.isDue()
	s.edit("/a")
	s.meanwhile = func() { s.exchange.setListening(s.fleet, rest, true) }
	s.pass()
	s.exchange.table(s.fleet)
	s.exchange.setListening(s.fleet, rest, true)
	for s.isDue() {
		s.pass()
	}
	if got := s.programmed(); got != "True Programmed" {
		t.Errorf("the route is %s, and no pass is due", got)
	}
}

// TestPortsThatAreGiven checks that the port of a deleted Gateway is not assigned again while a pass of the other
// controller may be about to make the pods listen on it for that Gateway.
func TestPortsThatAreGiven(t *testing.T) {
	t.Parallel()
	evil := gatewayOf("default", "evil", 1)
	s := newSinglePasses(t, evil)
	s.pass()
	s.exchange.table(s.fleet)
	must(t, s.Delete(context.Background(), evil))
	must(t, s.Create(context.Background(), gatewayOf("team", "shop", 2)))
	s.pass()
	if got := s.ports(); got["team/shop"] != 20001 {
		t.Errorf("the ports are %v, and default/evil had 20000", got)
	}
	s.exchange.setListening(s.fleet, listening{}, true) // it was not offered
	must(t, s.Create(context.Background(), gatewayOf("team", "more", 3)))
	s.pass()
	if got := s.ports(); got["team/more"] != 20000 {
		t.Errorf("the ports are %v: 20000 is free", got)
	}
}

// TestPortsOfLateServices checks that no two Services lead to the same port of the pods, even if the cache does not
// show the Service of a Gateway that is not accepted any more.
func TestPortsOfLateServices(t *testing.T) {
	t.Parallel()
	evil := gatewayOf("default", "evil", 1)
	s := newSinglePasses(t, evil)
	s.pass()
	must(t, s.Get(context.Background(), client.ObjectKeyFromObject(evil), evil))
	evil.Spec.Infrastructure = &gw.GatewayInfrastructure{
		ParametersRef: &gw.LocalParametersReference{Group: "a", Kind: "B", Name: "c"},
	}
	must(t, s.Update(context.Background(), evil))
	must(t, s.Create(context.Background(), gatewayOf("team", "shop", 2)))
	s.late = map[string]bool{naming.Gateway("default", "evil"): true}
	s.pass()
	s.late = nil
	for range 2 {
		s.pass()
		if got := s.ports(); got["default/evil"] != 20000 || got["team/shop"] != 20001 {
			t.Errorf("the ports are %v", got)
		}
	}
}

// TestPortsOfTwoRanges checks that no Gateway gets a port on which pods of the stable revision listen for another,
// while the range of the ports is changed and changed back.
func TestPortsOfTwoRanges(t *testing.T) {
	t.Parallel()
	gone := gatewayOf("team", "gone", 1)
	s := newSinglePasses(t, gone, gatewayOf("team", "first", 2), gatewayOf("default", "second", 3))
	s.pass()
	must(t, s.Delete(context.Background(), gone))
	s.pass()
	stable := s.exchange.tables[s.fleet] // first has 20001, and second has 20002
	report := func(candidate routes.Table) {
		var o observed
		o.offered.stable = &agentapi.Revision{ID: "stable", Routes: stable}
		o.offered.candidate = &agentapi.Revision{ID: "candidate", Routes: candidate}
		now, _ := o.listensOn()
		s.exchange.setListening(s.fleet, now, true)
	}
	report(stable)
	s.change(func(spec *v1alpha1.CacheNodeSpec) { spec.Gateways.Ports = v1alpha1.PortRange{From: 30000, To: 30999} })
	s.pass()
	report(s.exchange.tables[s.fleet])
	s.change(func(spec *v1alpha1.CacheNodeSpec) { spec.Gateways.Ports = v1alpha1.PortRange{From: 20000, To: 20999} })
	s.pass()
	if got := s.ports(); got["team/first"] != 20001 || got["default/second"] != 20002 {
		t.Errorf("the ports are %v", got)
	}
}

// TestServiceOfARefusedGateway checks that the Service of a Gateway that is not accepted follows the CacheNode, but
// leads to no pod; and that it is deleted when its port is out of range.
func TestServiceOfARefusedGateway(t *testing.T) {
	t.Parallel()
	shop := gatewayOf("team", "shop", 1)
	s := newSinglePasses(t, shop)
	service := func() *corev1.Service {
		of := &corev1.Service{}
		key := types.NamespacedName{Namespace: "default", Name: naming.Gateway("team", "shop")}
		if client.IgnoreNotFound(s.Get(context.Background(), key, of)) != nil || of.Name == "" {
			return nil
		}
		return of
	}
	s.change(func(spec *v1alpha1.CacheNodeSpec) { spec.Service.Type = corev1.ServiceTypeLoadBalancer })
	s.pass()
	open := service().Spec.Selector
	s.change(func(spec *v1alpha1.CacheNodeSpec) {
		spec.Service.Type, spec.Gateways.AllowedNamespaces.From = corev1.ServiceTypeClusterIP, "Same"
	})
	s.pass()
	closed := service()
	if closed == nil || closed.Spec.Type != corev1.ServiceTypeClusterIP ||
		closed.Spec.Selector[naming.LabelClosed] == "" || len(open) == 0 || closed.Spec.Selector[naming.LabelName] != "" {
		t.Fatalf("the Service selected %v, and now it is %+v", open, closed)
	}
	s.change(func(spec *v1alpha1.CacheNodeSpec) { spec.Gateways.Ports = v1alpha1.PortRange{From: 30000, To: 30999} })
	s.pass()
	if of := service(); of != nil {
		t.Errorf("the Service leads to %d, which may belong to something else now", of.Spec.Ports[0].TargetPort.IntVal)
	}
}

// TestAddressThatGoes checks that a Gateway does not get the address of a Service that is being deleted.
func TestAddressThatGoes(t *testing.T) {
	t.Parallel()
	shop := gatewayOf("team", "shop", 1)
	s := newSinglePasses(t, shop)
	s.pass()
	service := &corev1.Service{}
	key := types.NamespacedName{Namespace: "default", Name: naming.Gateway("team", "shop")}
	must(t, s.Get(context.Background(), key, service))
	service.Finalizers, service.Spec.ClusterIPs = []string{"example.com/cleanup"}, []string{"10.0.0.7"}
	must(t, s.Update(context.Background(), service))
	addresses := func() []gw.GatewayStatusAddress {
		must(t, s.Get(context.Background(), client.ObjectKeyFromObject(shop), shop))
		return shop.Status.Addresses
	}
	s.pass()
	if got := addresses(); len(got) != 1 || got[0].Value != "10.0.0.7" {
		t.Fatalf("the addresses are %v", got)
	}
	must(t, s.Delete(context.Background(), service))
	s.pass()
	if got := addresses(); len(got) > 0 {
		t.Errorf("the Service is being deleted, and the addresses are %v", got)
	}
}
