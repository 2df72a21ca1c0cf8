// Package gateways turns the objects of the Gateway API into the routes of a fleet and the statuses of the objects. It
// is pure: it decides what each object means, and its caller reads and writes the objects.
//
// It may import naming, routes, and the packages that say how long the configuration for a route would be. For a new
// kind of object that attaches to a Gateway, add a file, its input in [State] and its statuses in [Result]. The
// configuration that makes nginx carry out a rule belongs in nginx/cache.
package gateways

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Controller is the value of GatewayClass.spec.controllerName in the GatewayClasses that belong to CacheNodes.
const Controller gw.GatewayController = "cachenode.io/gateway"

// State contains the objects and settings in the cluster that determine what a fleet serves.
type State struct {
	Fleet Fleet
	// Gateways are the Gateways of the fleet's class. HTTPRoutes are the routes that may have one of these Gateways as a
	// parent.
	Gateways   []gw.Gateway
	HTTPRoutes []gw.HTTPRoute
	// Policies are the CachePolicies that may have one of these Gateways or routes as a target.
	Policies []v1alpha1.CachePolicy
	// IgnoresPolicies is true if the agent of a pod does not know policies. No pod then follows one.
	IgnoresPolicies bool
	Grants          Grants
	// Foreign are the Gateways that other controllers serve, and Elsewhere those that other CacheNodes serve.
	Foreign   map[types.NamespacedName]bool
	Elsewhere map[types.NamespacedName]bool
	// Namespaces are the namespaces of Gateways and routes, by name.
	Namespaces map[string]Namespace
	Services   map[types.NamespacedName]Service
	// Certificates are the certificates in the Secrets of [State.CertificateRefs]. A Secret that does not exist, or is not
	// of type kubernetes.io/tls, has no entry.
	Certificates map[types.NamespacedName]Certificate
	// Delivered are the data of the Secrets from which the pods get certificates, by slot. Held are the IDs of
	// certificates that a pod may need, because a revision in the ConfigMap names them.
	Delivered []map[string][]byte
	Held      map[string]bool
	// Ports maps each port of a Gateway to a port of the pods. A port of a Gateway without an entry is not served.
	Ports map[Port]int32
	// Running contains what the ready pods serve; see [Result.ServedBy].
	Running Running
	// Refused are the routes that nginx has refused, by ID.
	Refused map[string]Refused
	// Addresses are the addresses of Gateways.
	Addresses map[types.NamespacedName][]string
}

// HasDelivered returns true if the Secrets from which the pods get certificates contain the one with the given ID.
func (s State) HasDelivered(id string) bool {
	return slices.ContainsFunc(s.Delivered, func(slot map[string][]byte) bool { return slot[id] != nil })
}

// Namespace contains the properties of a namespace that matter to Gateways and routes.
type Namespace struct {
	UID    types.UID
	Labels map[string]string
}

// Port is a port of the address of a Gateway.
type Port struct {
	Gateway types.NamespacedName
	Number  int32
}

// Service contains the properties of a Service that matter to routes.
type Service struct {
	// Ports maps each port of the Service to the port to which requests are sent. Both ports are the same for a Service
	// with a ClusterIP. For a headless Service, requests are sent to the port of the endpoints.
	Ports map[int32]int32
	// Protocols contains the appProtocol of ports whose endpoints do not understand plain HTTP/1.1 (GEP-1911).
	Protocols map[int32]string
	// External is true for a Service of type ExternalName, which cannot be a backend.
	External bool
}

// Result contains the routes that the fleet serves, and the statuses of the objects.
type Result struct {
	Table routes.Table
	// Certificates are the data of the Secrets from which the pods get certificates, by slot. They must be written before
	// a pod gets the table.
	Certificates []map[string][]byte
	// Refused are the entries of [State.Refused] that still apply, because the route has not changed.
	Refused map[string]Refused
	// Gateways are the statuses of the Gateways, by Gateway.
	Gateways map[types.NamespacedName]gw.GatewayStatus
	// Parents are the statuses of the HTTPRoutes for the fleet's Gateways, by route.
	Parents map[types.NamespacedName][]gw.RouteParentStatus
	// Policies are the statuses of the CachePolicies for the fleet's Gateways, and for targets that do not exist, by
	// policy.
	Policies map[types.NamespacedName][]gw.PolicyAncestorStatus
	// by is the decision that has made the result.
	by *decision
}

// ServedBy returns the result with the statuses that follow from what the ready pods serve. Nothing else in the result
// depends on that.
func (r Result) ServedBy(running Running) Result {
	d := *r.by
	d.Running, d.result = running, r
	d.report()
	return d.result
}

// Decide returns the routes and the statuses that follow from the state.
func Decide(s State) Result {
	d := decision{
		State: s, considered: map[string]int{},
		listeners: map[types.NamespacedName][]*listener{}, excluded: map[types.NamespacedName]*problem{},
		policies: map[target]*v1alpha1.CachePolicy{}, rules: map[string]v1alpha1.CacheRules{},
		room:   newRoom(s.Fleet),
		result: Result{Refused: map[string]Refused{}},
	}
	// The caller may read the Gateways in any order, but the table must not depend on it.
	d.Gateways = slices.SortedFunc(slices.Values(s.Gateways), func(a, b gw.Gateway) int { return byAge(&a, &b) })
	referred := map[string]bool{}
	for _, name := range s.CertificateRefs() {
		referred[s.certificateID(name)] = true
	}
	d.delivery = newDelivery(s.Delivered, func(id string) bool { return referred[id] || s.Held[id] })
	d.readPolicies()
	d.readListeners()
	d.attachRoutes()
	d.keepPolicies()
	d.report()
	used := map[string]bool{}
	for _, id := range d.result.Table.Certificates() {
		used[id] = true
	}
	d.delivery.keep(func(id string) bool { return used[id] || s.Held[id] })
	d.result.Certificates = d.delivery.secrets
	d.result.by = &d
	return d.result
}

// report writes all statuses.
func (d *decision) report() {
	d.result.Gateways = map[types.NamespacedName]gw.GatewayStatus{}
	d.result.Parents = map[types.NamespacedName][]gw.RouteParentStatus{}
	d.reportGateways()
	d.reportRoutes()
	d.reportPolicies()
}

// decision collects the result.
type decision struct {
	State
	// considered is the number of routes of each namespace that name a Gateway of the fleet.
	considered map[string]int
	// excluded contains the problems of Gateways that the fleet does not serve.
	excluded map[types.NamespacedName]*problem
	// listeners are the listeners of each Gateway of the fleet.
	listeners map[types.NamespacedName][]*listener
	// policies contains the policy for each target, and rules the rules of all policies by ID.
	policies map[target]*v1alpha1.CachePolicy
	rules    map[string]v1alpha1.CacheRules
	// attached are the routes that name Gateways of the fleet, the oldest first.
	attached []attached
	room     *room
	// delivery contains the certificates that the pods get.
	delivery *delivery
	result   Result
}

// byAge compares two objects of a kind. The older object comes first. Objects of the same age are sorted by namespace
// and name (Gateway API, guidelines for conflicts).
func byAge(a, b metav1.Object) int {
	first, second := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(first.Compare(second.Time), cmp.Compare(nameOf(a).String(), nameOf(b).String()))
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
