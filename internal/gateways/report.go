package gateways

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// reportGateways completes the statuses of the Gateways.
func (d *decision) reportGateways() {
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
			if l.serves() && d.Served[l.entry().Door()] {
				programmed++
			}
			kinds := l.kinds()
			if kinds == nil {
				kinds = []gw.RouteGroupKind{} // the status must contain the list, even if it is empty
			}
			status.Listeners = append(status.Listeners, gw.ListenerStatus{
				Name: l.Name, SupportedKinds: kinds, AttachedRoutes: int32(len(l.attached)), //nolint:gosec // see maxRoutes
				Conditions: l.conditions(d.Served),
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
	case programmed == 0:
		missing = problemf(gw.GatewayReasonPending, "not all ready pods listen on a port of the Gateway yet")
	}
	a := unless(refused, gw.GatewayConditionAccepted, gw.GatewayReasonAccepted, g.Generation)
	if refused == nil && invalid { // Accepted is true, but its reason names a problem
		a.Reason, a.Message = string(gw.GatewayReasonListenersNotValid), "see the conditions of the listeners"
	}
	return []metav1.Condition{a, unless(missing, gw.GatewayConditionProgrammed, gw.GatewayReasonProgrammed, g.Generation)}
}
