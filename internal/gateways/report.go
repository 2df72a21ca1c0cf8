package gateways

import (
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// reportGateways completes the statuses of the Gateways.
func (d *decision) reportGateways() {
	served := d.Running.doors()
	for i := range d.Gateways {
		g := &d.Gateways[i]
		status := gw.GatewayStatus{}
		for _, a := range d.Addresses[nameOf(g)] {
			status.Addresses = append(status.Addresses, gw.GatewayStatusAddress{
				Type: new(typeOf(a)), Value: a,
			})
		}
		invalid, accepted, programmed := false, 0, 0
		for _, l := range d.listeners[nameOf(g)] {
			if l.refused == nil && l.conflicted == nil {
				accepted++
			}
			invalid = invalid || l.refused != nil || l.conflicted != nil || l.unresolved != nil
			if l.serves() && served[l.entry().Door()] {
				programmed++
			}
			kinds := l.kinds()
			if kinds == nil {
				kinds = []gw.RouteGroupKind{} // the status must contain the list, even if it is empty
			}
			status.Listeners = append(status.Listeners, gw.ListenerStatus{
				Name: l.Name, SupportedKinds: kinds, AttachedRoutes: int32(len(l.attached)), //nolint:gosec // see maxRoutes
				Conditions: d.listenerConditions(l, served[l.entry().Door()] && !d.Running.Unknown),
			})
		}
		status.Conditions = d.gatewayConditions(g, accepted, programmed, invalid)
		d.result.Gateways[nameOf(g)] = status
	}
}

// typeOf returns the type of an address: the address of a load balancer can be a name.
func typeOf(address string) gw.AddressType {
	if _, err := netip.ParseAddr(address); err != nil {
		return gw.HostnameAddressType
	}
	return gw.IPAddressType
}

// gatewayConditions returns the conditions of a Gateway. accepted and programmed are the numbers of its listeners
// that are accepted and programmed. invalid is true if a listener has a problem.
func (d *decision) gatewayConditions(g *gw.Gateway, accepted, programmed int, invalid bool) []metav1.Condition {
	refused, missing := d.excluded[nameOf(g)], (*problem)(nil)
	if refused == nil && accepted == 0 {
		refused = problemf(gw.GatewayReasonListenersNotValid, "no listener is accepted: see their conditions")
	}
	switch {
	case refused != nil:
		missing = problemf(gw.GatewayReasonInvalid, "the Gateway is not accepted")
	case len(d.Addresses[nameOf(g)]) == 0:
		missing = problemf(gw.GatewayReasonAddressNotAssigned, "the Service of the Gateway has no address yet")
	case programmed == 0 || d.Running.Unknown:
		missing = problemf(gw.GatewayReasonPending, "not all ready pods listen on a port of the Gateway yet")
	}
	a := unless(refused, gw.GatewayConditionAccepted, gw.GatewayReasonAccepted, g.Generation)
	if refused == nil && invalid { // Accepted is true, but its reason names a problem
		a.Reason, a.Message = string(gw.GatewayReasonListenersNotValid), "see the conditions of the listeners"
	}
	list := []metav1.Condition{a, d.Running.follow(g.Status.Conditions,
		unless(missing, gw.GatewayConditionProgrammed, gw.GatewayReasonProgrammed, g.Generation))}
	if ignored := ignored(g); ignored != nil {
		list = append(list, ifAny(ignored, GatewayConditionIgnored, "", g.Generation))
	}
	return list
}

// GatewayConditionIgnored is true for a Gateway with fields that have no effect. It does not exist for other Gateways.
const GatewayConditionIgnored gw.GatewayConditionType = "cachenode.io/Ignored"

// ignored returns a problem that names the fields of a Gateway that have no effect; nil if there are none. A Gateway
// with these fields is served all the same.
func ignored(g *gw.Gateway) *problem {
	var fields []string
	if i := g.Spec.Infrastructure; i != nil && len(i.Labels) > 0 {
		fields = append(fields, "spec.infrastructure.labels")
	}
	if i := g.Spec.Infrastructure; i != nil && len(i.Annotations) > 0 {
		fields = append(fields, "spec.infrastructure.annotations")
	}
	if g.Spec.AllowedListeners != nil {
		fields = append(fields, "spec.allowedListeners")
	}
	if g.Spec.TLS != nil && g.Spec.TLS.Backend != nil {
		fields = append(fields, "spec.tls.backend")
	}
	if len(fields) == 0 {
		return nil
	}
	return problemf("UnsupportedField", "%s: not supported, and has no effect", strings.Join(fields, ", "))
}

// listenerConditions returns the conditions of a listener. isServed is true if all ready pods serve it as it is.
func (d *decision) listenerConditions(l *listener, isServed bool) []metav1.Condition {
	var missing *problem
	switch {
	case l.unresolved != nil && l.serves():
		missing = problemf(gw.ListenerReasonInvalid, "see the other conditions; the pods still serve the listener")
	case firstOf(l.refused, l.conflicted, l.unresolved) != nil:
		missing = problemf(gw.ListenerReasonInvalid, "see the other conditions")
	case !isServed:
		missing = problemf(gw.ListenerReasonPending, "not all ready pods serve the listener yet")
	}
	refused, generation := firstOf(l.refused, l.conflicted), l.gateway.Generation
	var had []metav1.Condition
	for _, s := range l.gateway.Status.Listeners {
		if s.Name == l.Name {
			had = s.Conditions
		}
	}
	return []metav1.Condition{
		unless(refused, gw.ListenerConditionAccepted, gw.ListenerReasonAccepted, generation),
		ifAny(l.conflicted, gw.ListenerConditionConflicted, gw.ListenerReasonNoConflicts, generation),
		d.Running.follow(had, unless(missing, gw.ListenerConditionProgrammed, gw.ListenerReasonProgrammed, generation)),
		unless(l.unresolved, gw.ListenerConditionResolvedRefs, gw.ListenerReasonResolvedRefs, generation),
	}
}
