package gateways

import (
	"slices"

	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// listener is a listener of a Gateway, together with the decisions about it.
type listener struct {
	gw.Listener
	gateway *gw.Gateway
	// podPort is the port of the pods for the listener; 0 if there is none.
	podPort int32
	// refused, conflicted and unresolved are the problems of the listener; each is nil if there is no such problem.
	refused, conflicted, unresolved *problem
	// certificate is the ID of the certificate that clients see; "" if there is none.
	certificate string
	// policy is the ID of the policy for routes without a policy of their own; "" if there is none.
	policy string
	// allows returns true for the namespaces whose routes may attach.
	allows func(namespace string) bool
	// attached are the attached routes, in the order of the table.
	attached []routes.Attachment
}

const httpRoute gw.Kind = "HTTPRoute"

// reasonNamespace is the reason of the condition Accepted for a Gateway in a namespace that the CacheNode does not
// serve, and for the listeners of this Gateway. The Gateway API defines no reason for this case.
const reasonNamespace = "NamespaceNotAllowed"

// readListeners adds the listeners of all Gateways with their problems, but without their routes. The oldest Gateways
// come first, so a newer Gateway never takes the room of an older one.
func (d *decision) readListeners() {
	excludes := d.excludes()
	for i := range d.Gateways {
		g := &d.Gateways[i]
		d.excluded[nameOf(g)] = excludes(g)
		var of []*listener
		for _, l := range g.Spec.Listeners {
			var namespaces *gw.RouteNamespaces
			if l.AllowedRoutes != nil {
				namespaces = l.AllowedRoutes.Namespaces
			}
			of = append(of, &listener{
				Listener: l, allows: d.selects(namespaces, g.Namespace), gateway: g, podPort: d.Ports[Port{nameOf(g), l.Port}],
				refused: d.refuses(g, l), unresolved: unresolved(l), policy: d.policyOf(gateway, nameOf(g), l.Name),
			})
		}
		for _, l := range of {
			l.conflicted = conflicts(l, of)
			if l.Protocol == gw.HTTPSProtocolType && firstOf(l.refused, l.conflicted) == nil {
				d.resolve(l)
			}
			if l.serves() {
				l.refused = d.room.takeListener(g.Namespace, l.entry(), d.rules)
			}
		}
		d.listeners[nameOf(g)] = of
	}
}

// host returns the pattern of the hosts that the listener accepts.
func (l *listener) host() routes.Host { return routes.Host(ptr.Deref(l.Hostname, "")) }

// entry returns the entry of the table for the listener.
func (l *listener) entry() routes.Listener {
	return routes.Listener{
		Gateway: nameOf(l.gateway).String(), Name: string(l.Name), Port: l.Port, PodPort: l.podPort, Host: l.host(),
		Certificate: l.certificate, Policy: l.policy, Attached: l.attached,
	}
}

// serves returns true if requests to the listener can be answered.
func (l *listener) serves() bool {
	return l.refused == nil && l.conflicted == nil && (l.certificate != "" || l.Protocol != gw.HTTPSProtocolType)
}

// refuses returns the problem that keeps a listener from being accepted; nil if there is none.
func (d *decision) refuses(g *gw.Gateway, l gw.Listener) *problem {
	if p := d.excluded[nameOf(g)]; p != nil {
		return p
	}
	switch l.Protocol {
	case gw.HTTPProtocolType:
	case gw.HTTPSProtocolType:
		if p := unsupportedTLS(g, l); p != nil {
			return p
		}
	default:
		return problemf(gw.ListenerReasonUnsupportedProtocol,
			"protocol %.20s is not supported: use HTTP or HTTPS", l.Protocol)
	}
	if p := tooDeep("hostname", ptr.Deref(l.Hostname, "")); p != nil {
		return p
	}
	if l.AllowedRoutes != nil && isLarge(l.AllowedRoutes.Namespaces) {
		return problemf(gw.ListenerReasonUnsupportedValue,
			"allowedRoutes.namespaces.selector has more than %d labels and values", maxSelector)
	}
	if d.Ports[Port{nameOf(g), l.Port}] == 0 {
		return problemf(gw.ListenerReasonPortUnavailable,
			"no port of the pods is left for namespace %s: see spec.gateways.ports of CacheNode %s; Gateways that are not "+
				"accepted keep theirs until they are deleted", g.Namespace, d.Fleet)
	}
	return nil
}

// excludes returns a function that returns the problem that keeps the fleet from serving a Gateway; nil if there is
// none.
func (s State) excludes() func(g *gw.Gateway) *problem {
	selected := s.selects(&s.Fleet.Allowed, s.Fleet.Namespace)
	return func(g *gw.Gateway) *problem {
		switch {
		case s.Fleet.Missing != "":
			return problemf(gw.GatewayReasonInvalidParameters, "%s", s.Fleet.Missing)
		case !selected(g.Namespace):
			return problemf(reasonNamespace,
				"CacheNode %s serves no Gateways of namespace %s, but of %s (its spec.gateways.allowedNamespaces)",
				s.Fleet, g.Namespace, s.Fleet.allowedText())
		case g.Spec.Infrastructure != nil && g.Spec.Infrastructure.ParametersRef != nil:
			return problemf(gw.GatewayReasonInvalidParameters, "spec.infrastructure.parametersRef is not supported")
		}
		for i, a := range g.Spec.Addresses {
			if a.Value != "" || ptr.Deref(a.Type, gw.IPAddressType) != gw.IPAddressType {
				return problemf(gw.GatewayReasonUnsupportedAddress,
					"spec.addresses[%d]: no address can be chosen: a Gateway gets the address of its Service", i)
			}
		}
		return nil
	}
}

// kinds returns the kinds of routes that may attach to the listener and that are supported.
func (l *listener) kinds() []gw.RouteGroupKind {
	if l.Protocol != gw.HTTPProtocolType && l.Protocol != gw.HTTPSProtocolType {
		return nil
	}
	if of := l.AllowedRoutes; of != nil && len(of.Kinds) > 0 && !slices.ContainsFunc(of.Kinds, isHTTPRoute) {
		return nil
	}
	return []gw.RouteGroupKind{{Group: ptr.To(gw.Group(gw.GroupName)), Kind: httpRoute}}
}

func isHTTPRoute(k gw.RouteGroupKind) bool {
	return k.Kind == httpRoute && ptr.Deref(k.Group, gw.GroupName) == gw.GroupName
}

// unresolved returns a problem if the listener names a kind of routes that is not supported; nil otherwise.
func unresolved(l gw.Listener) *problem {
	if l.AllowedRoutes != nil {
		for _, k := range l.AllowedRoutes.Kinds {
			if !isHTTPRoute(k) {
				return problemf(gw.ListenerReasonInvalidRouteKinds,
					"allowedRoutes.kinds: %s is not supported: use HTTPRoute", k.Kind)
			}
		}
	}
	return nil
}

// conflicts returns the conflict of a listener with an earlier or later listener of its Gateway; nil if there is
// none. Listeners on the same port must have the same protocol and different hosts.
func conflicts(l *listener, all []*listener) *problem {
	for _, other := range all {
		if other == l || other.Port != l.Port {
			continue
		}
		if other.Protocol != l.Protocol {
			return problemf(gw.ListenerReasonProtocolConflict,
				"listener %s has protocol %s on the same port", other.Name, other.Protocol)
		}
		if other.host() == l.host() {
			return problemf(gw.ListenerReasonHostnameConflict,
				"listener %s has the same port and the same hostname", other.Name)
		}
	}
	return nil
}

// isNamed returns true if the listener matches the sectionName and the port of a reference to its Gateway. A field
// that is not set matches every listener.
func (l *listener) isNamed(ref gw.ParentReference) bool {
	return (ref.SectionName == nil || *ref.SectionName == l.Name) && (ref.Port == nil || *ref.Port == l.Port)
}

// hosts returns the hosts that both the listener and a route accept. A route without hosts accepts all hosts.
func (l *listener) hosts(of []gw.Hostname) (hosts []routes.Host) {
	if len(of) == 0 {
		return []routes.Host{l.host()}
	}
	for _, h := range of {
		if both, ok := routes.Host(h).Both(l.host()); ok && !slices.Contains(hosts, both) {
			hosts = append(hosts, both)
		}
	}
	return hosts
}
