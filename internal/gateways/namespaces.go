package gateways

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// allows returns true if allowed includes the given namespace. own is the namespace of the object that contains
// allowed.
func (s State) allows(allowed *gw.RouteNamespaces, own, namespace string) bool {
	if allowed == nil {
		return own == namespace
	}
	switch ptr.Deref(allowed.From, gw.NamespacesFromSame) {
	case gw.NamespacesFromAll:
		return true
	case gw.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		return err == nil && selector.Matches(labels.Set(s.Namespaces[namespace].Labels))
	case gw.NamespacesFromSame:
		return own == namespace
	default: // None, and values that a later version of the API may add
		return false
	}
}

// grants returns true if a ReferenceGrant in the given namespace allows references to an object in the same
// namespace. The object is of the core API group. from contains the kind and the namespace of the objects that refer
// to it.
func (s State) grants(from gw.ReferenceGrantFrom, kind gw.Kind, namespace, name string) bool {
	return slices.ContainsFunc(s.Grants, func(g gw.ReferenceGrant) bool {
		return g.Namespace == namespace && slices.Contains(g.Spec.From, from) &&
			slices.ContainsFunc(g.Spec.To, func(to gw.ReferenceGrantTo) bool {
				return to.Group == "" && to.Kind == kind && (to.Name == nil || string(*to.Name) == name)
			})
	})
}
