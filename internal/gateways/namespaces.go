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

// Grants says which objects may refer to objects of other namespaces.
type Grants map[crossing]granted

// crossing consists of a kind of reference, the namespace of the referring object, and the other namespace.
type crossing struct {
	reference
	from, to string
}

// reference is a kind of object, and a kind of object to which it refers.
type reference struct{ from, to gw.Kind }

// The references that can cross namespaces.
var (
	toService = reference{httpRoute, "Service"}
	toSecret  = reference{"Gateway", "Secret"}
)

// granted are the names of the objects. If all is true, these are all objects of the kind in the namespace.
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
			if from.Group != gw.GroupName {
				continue
			}
			for _, of := range []reference{toService, toSecret} {
				if from.Kind == of.from {
					grants.add(crossing{of, string(from.Namespace), g.Namespace}, g.Spec.To)
				}
			}
		}
	}
	return grants
}

func (g Grants) add(c crossing, list []gw.ReferenceGrantTo) {
	of := g[c]
	for _, to := range list {
		switch {
		case to.Group != "" || to.Kind != c.reference.to:
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

// allows returns true if an object in the namespace from may refer to an object of another namespace.
func (g Grants) allows(of reference, from, namespace, name string) bool {
	to := g[crossing{of, from, namespace}]
	return to.all || to.names[name]
}
