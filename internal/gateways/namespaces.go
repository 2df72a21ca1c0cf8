package gateways

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// maxSelector is the maximum number of labels and values in a selector of a listener, which a team writes. Each
// namespace with a route is compared with the selector.
const maxSelector = 100

// selects returns a function that returns true for the namespaces that allowed includes. own is the namespace of the
// object that contains allowed.
func (s State) selects(allowed *gw.RouteNamespaces, own string) func(namespace string) bool {
	same := func(namespace string) bool { return namespace == own }
	if allowed == nil {
		return same
	}
	switch ptr.Deref(allowed.From, gw.NamespacesFromSame) {
	case gw.NamespacesFromNone:
	case gw.NamespacesFromAll:
		return func(string) bool { return true }
	case gw.NamespacesFromSame:
		return same
	case gw.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		if err != nil {
			break
		}
		known := map[string]bool{}
		return func(namespace string) bool {
			selected, ok := known[namespace]
			if !ok {
				selected = selector.Matches(labels.Set(s.Namespaces[namespace].Labels))
				known[namespace] = selected
			}
			return selected
		}
	}
	return func(string) bool { return false } // also for values that a later version of the API may add
}

// isLarge returns true for a selector with more than maxSelector labels and values.
func isLarge(allowed *gw.RouteNamespaces) bool {
	if allowed == nil || allowed.Selector == nil {
		return false
	}
	size := len(allowed.Selector.MatchLabels)
	for _, e := range allowed.Selector.MatchExpressions {
		size += 1 + len(e.Values)
	}
	return size > maxSelector
}

// Grants says which HTTPRoutes may refer to Services of other namespaces.
type Grants map[crossing]granted

// crossing consists of the namespace of a route and the namespace of a Service.
type crossing struct{ from, to string }

// granted are the names of the Services. If all is true, these are all Services of the namespace.
type granted struct {
	all   bool
	names map[string]bool
}

// NewGrants returns what ReferenceGrants allow.
func NewGrants(list []gw.ReferenceGrant) Grants {
	grants := Grants{}
	for i := range list {
		g := &list[i]
		for _, from := range g.Spec.From {
			if from.Group == gw.GroupName && from.Kind == httpRoute {
				grants.add(crossing{string(from.Namespace), g.Namespace}, g.Spec.To)
			}
		}
	}
	return grants
}

func (g Grants) add(c crossing, list []gw.ReferenceGrantTo) {
	of := g[c]
	for _, to := range list {
		switch {
		case to.Group != "" || to.Kind != "Service":
		case to.Name == nil:
			of.all = true
		case of.names == nil:
			of.names = map[string]bool{string(*to.Name): true}
		default:
			of.names[string(*to.Name)] = true
		}
	}
	g[c] = of
}

// allows returns true if a route in the namespace from may refer to a Service of another namespace.
func (g Grants) allows(from, namespace, service string) bool {
	of := g[crossing{from, namespace}]
	return of.all || of.names[service]
}
