// Package gateways turns the objects of the Gateway API into the routes of a fleet and the statuses of the objects. It
// is pure: it decides what each object means, and its caller reads and writes the objects.
//
// It may import routes and naming. A new kind of object that attaches to a Gateway gets a file of its own, which adds
// to [State] what it reads and to [Result] what it reports. What nginx does with a rule belongs in nginx/cache.
package gateways

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Controller is the controller of the GatewayClasses that belong to CacheNodes (GatewayClass.spec.controllerName).
const Controller gw.GatewayController = "cachenode.io/gateway"

// State is what the cluster contains that decides what a fleet serves.
type State struct {
	Fleet Fleet
	// Gateways are the Gateways of the fleet's class. HTTPRoutes are the routes of which a parent may be one of them.
	Gateways   []gw.Gateway
	HTTPRoutes []gw.HTTPRoute
	Grants     []gw.ReferenceGrant
	// Namespaces are the namespaces of Gateways and routes, by name.
	Namespaces map[string]Namespace
	Services   map[types.NamespacedName]Service
	// Certificates are the Secrets to which listeners refer. The value says what is wrong with the Secret; it is nil for
	// a Secret with a certificate and its key.
	Certificates map[types.NamespacedName]error
	// Ports are the ports of the pods, by the port of a Gateway. A port of a Gateway without an entry is not served.
	Ports map[Port]int32
	// Served are the ports of the pods on which all ready pods listen.
	Served map[int32]bool
	// Addresses are the addresses of Gateways.
	Addresses map[types.NamespacedName][]string
}

// Fleet is the CacheNode whose pods serve the Gateways.
type Fleet struct {
	types.NamespacedName
	// Allowed are the namespaces whose Gateways are served.
	Allowed gw.RouteNamespaces
	// MaxRoutes is the maximum number of attached routes, and MaxRoutesPerNamespace the maximum for each namespace.
	MaxRoutes, MaxRoutesPerNamespace int
	ClusterDomain                    string
}

// Namespace is what a Gateway or a route needs to know about a namespace.
type Namespace struct {
	UID    types.UID
	Labels map[string]string
}

// Port is a port of the address of a Gateway.
type Port struct {
	Gateway types.NamespacedName
	Number  int32
}

// Service is what a route needs to know about a Service.
type Service struct {
	// Ports are the ports to which requests are sent, by the port of the Service. It is the same port for a Service with
	// a ClusterIP. For a headless Service, it is the port of the endpoints.
	Ports map[int32]int32
	// External is true for a Service of type ExternalName, which cannot be a backend.
	External bool
}

// Result is what the objects mean.
type Result struct {
	Table routes.Table
	// Gateways are the statuses of the Gateways, by Gateway.
	Gateways map[types.NamespacedName]gw.GatewayStatus
	// Parents are the statuses of the HTTPRoutes for the fleet's Gateways, by route.
	Parents map[types.NamespacedName][]gw.RouteParentStatus
}

// Decide returns what the objects mean.
func Decide(s State) Result {
	d := decision{State: s, result: Result{
		Gateways: map[types.NamespacedName]gw.GatewayStatus{},
		Parents:  map[types.NamespacedName][]gw.RouteParentStatus{},
	}}
	d.readListeners()
	d.attachRoutes()
	d.reportGateways()
	return d.result
}

// decision collects the result.
type decision struct {
	State
	listeners []*listener
	result    Result
}

// byAge compares two objects of a kind: the older one comes first, and of two of the same age the one whose namespace
// and name come first (Gateway API, guidelines for conflicts).
func byAge(a, b metav1.Object) int {
	first, second := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(first.Compare(second.Time), cmp.Compare(nameOf(a).String(), nameOf(b).String()))
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
