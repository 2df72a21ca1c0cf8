package gateways

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Fleet is the CacheNode whose pods serve the Gateways.
type Fleet struct {
	types.NamespacedName
	// Missing says why the CacheNode serves no Gateways; "" if it serves them.
	Missing string
	// Allowed are the namespaces whose Gateways are served.
	Allowed gw.RouteNamespaces
	// MaxRoutes is the maximum number of attached routes. MaxRoutesPerNamespace is the maximum number for each
	// namespace.
	MaxRoutes, MaxRoutesPerNamespace int
	ClusterDomain                    string
}

// NoFleet is the name of the CacheNode of a GatewayClass that refers to none.
var NoFleet = types.NamespacedName{}

// FleetOf returns the CacheNode to which a GatewayClass of this controller refers, or [NoFleet].
func FleetOf(class *gw.GatewayClass) (cacheNode types.NamespacedName) {
	ref := class.Spec.ParametersRef
	if ref == nil || ref.Namespace == nil || string(ref.Group) != v1alpha1.GroupVersion.Group || ref.Kind != "CacheNode" {
		return NoFleet
	}
	return types.NamespacedName{Namespace: string(*ref.Namespace), Name: ref.Name}
}

// FleetFor returns the fleet for a CacheNode, which is nil if it does not exist.
func FleetFor(name types.NamespacedName, cacheNode *v1alpha1.CacheNode, clusterDomain string) Fleet {
	f := Fleet{NamespacedName: name, ClusterDomain: clusterDomain}
	switch {
	case name == NoFleet:
		f.Missing = "the GatewayClass names no CacheNode in its spec.parametersRef: it needs the group cachenode.io, the " +
			"kind, the name and the namespace"
	case cacheNode == nil:
		f.Missing = fmt.Sprintf("CacheNode %s does not exist", name)
	case cacheNode.Spec.Gateways == nil:
		f.Missing = fmt.Sprintf("CacheNode %s serves no Gateways: set its spec.gateways", name)
	default:
		g := cacheNode.Spec.Gateways
		f.Allowed = gw.RouteNamespaces{
			From: new(gw.FromNamespaces(g.AllowedNamespaces.From)), Selector: g.AllowedNamespaces.Selector,
		}
		f.MaxRoutes = int(ptr.Deref(g.MaxRoutes, 0))
		f.MaxRoutesPerNamespace = int(ptr.Deref(g.MaxRoutesPerNamespace, 0))
	}
	return f
}

// allowedText says which namespaces the fleet serves, for messages.
func (f Fleet) allowedText() string {
	if ptr.Deref(f.Allowed.From, gw.NamespacesFromSame) == gw.NamespacesFromSelector {
		return fmt.Sprintf("namespaces with the labels %q", metav1.FormatLabelSelector(f.Allowed.Selector))
	}
	return fmt.Sprintf("namespace %s only", f.Namespace)
}

// Allowed returns the Gateways that the fleet serves.
func (s State) Allowed() (allowed []gw.Gateway) {
	excludes := s.excludes()
	for i := range s.Gateways {
		if excludes(&s.Gateways[i]) == nil {
			allowed = append(allowed, s.Gateways[i])
		}
	}
	return allowed
}

// Has returns true for a Gateway of the fleet's class, whether the fleet serves it or not.
func (s State) Has(gateway types.NamespacedName) bool {
	return slices.ContainsFunc(s.Gateways, func(g gw.Gateway) bool { return nameOf(&g) == gateway })
}

// Backends returns the Services to which routes of the fleet's Gateways may refer, each once.
func (s State) Backends() (names []types.NamespacedName) {
	own, seen := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for i := range s.Gateways {
		own[nameOf(&s.Gateways[i])] = true
	}
	for i := range s.HTTPRoutes {
		r := &s.HTTPRoutes[i]
		if !slices.ContainsFunc(r.Spec.ParentRefs, func(ref gw.ParentReference) bool {
			name, ok := parentOf(ref, r.Namespace)
			return ok && own[name]
		}) {
			continue
		}
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				name, problem := s.serviceOf(r.Namespace, b.BackendObjectReference)
				if problem == nil && !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// IsElsewhere returns true if a reference of a route in the given namespace names a Gateway of another CacheNode.
func (s State) IsElsewhere(ref gw.ParentReference, namespace string) bool {
	name, ok := parentOf(ref, namespace)
	return ok && s.Elsewhere[name]
}

// parentOf returns the name of the Gateway to which a reference leads. ok is false for a reference to another kind.
func parentOf(ref gw.ParentReference, namespace string) (name types.NamespacedName, ok bool) {
	if ptr.Deref(ref.Group, gw.GroupName) != gw.GroupName || ptr.Deref(ref.Kind, "Gateway") != "Gateway" {
		return name, false
	}
	return types.NamespacedName{
		Namespace: string(ptr.Deref(ref.Namespace, gw.Namespace(namespace))), Name: string(ref.Name),
	}, true
}
