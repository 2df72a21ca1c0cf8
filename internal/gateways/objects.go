package gateways

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Objects are all objects of the kinds that matter to Gateways.
type Objects struct {
	Classes    []gw.GatewayClass
	Gateways   []gw.Gateway
	HTTPRoutes []gw.HTTPRoute
	Policies   []v1alpha1.CachePolicy
	Grants     []gw.ReferenceGrant
	Namespaces []corev1.Namespace
}

// State returns the state for a fleet. It does not contain Services, certificates, ports and addresses yet. It leaves
// out objects whose namespace is not known yet, because the UID of the namespace is a part of keys.
func (o Objects) State(fleet Fleet) State {
	s := State{
		Fleet: fleet, Grants: NewGrants(o.Grants), Elsewhere: map[types.NamespacedName]bool{},
		Foreign:    map[types.NamespacedName]bool{},
		Namespaces: make(map[string]Namespace, len(o.Namespaces)), Services: map[types.NamespacedName]Service{},
		Certificates: map[types.NamespacedName]Certificate{},
	}
	for i := range o.Namespaces {
		n := &o.Namespaces[i]
		s.Namespaces[n.Name] = Namespace{UID: n.UID, Labels: n.Labels}
	}
	for i := range o.HTTPRoutes {
		if _, ok := s.Namespaces[o.HTTPRoutes[i].Namespace]; ok {
			s.HTTPRoutes = append(s.HTTPRoutes, o.HTTPRoutes[i])
		}
	}
	for i := range o.Policies {
		if _, ok := s.Namespaces[o.Policies[i].Namespace]; ok && o.Policies[i].DeletionTimestamp.IsZero() {
			s.Policies = append(s.Policies, o.Policies[i])
		}
	}
	fleets := map[gw.ObjectName]types.NamespacedName{}
	for i := range o.Classes {
		if o.Classes[i].Spec.ControllerName == Controller {
			fleets[gw.ObjectName(o.Classes[i].Name)] = FleetOf(&o.Classes[i])
		}
	}
	for i := range o.Gateways {
		g := &o.Gateways[i]
		if _, ok := s.Namespaces[g.Namespace]; !ok {
			continue
		}
		switch of, ok := fleets[g.Spec.GatewayClassName]; {
		case !ok:
			s.Foreign[nameOf(g)] = true
		case !g.DeletionTimestamp.IsZero():
		case of == fleet.NamespacedName:
			s.Gateways = append(s.Gateways, *g)
		default:
			s.Elsewhere[nameOf(g)] = true
		}
	}
	return s
}

// ServiceOf returns the properties of a Service that matter to routes. endpoints are the EndpointSlices of the Service;
// they matter only for a headless Service. The name of such a Service leads to the endpoints themselves, so requests go
// to their port. If the endpoints have different ports, requests go to the lowest one. If there are no endpoints,
// requests go to the target port of the Service if it is a number, and to the port of the Service otherwise.
func ServiceOf(service *corev1.Service, endpoints []discoveryv1.EndpointSlice) Service {
	s := Service{
		External: service.Spec.Type == corev1.ServiceTypeExternalName,
		Ports:    map[int32]int32{}, Protocols: map[int32]string{},
	}
	for _, p := range service.Spec.Ports {
		s.Ports[p.Port] = p.Port
		if protocol := ptr.Deref(p.AppProtocol, ""); strings.HasPrefix(protocol, "kubernetes.io/") {
			s.Protocols[p.Port] = protocol
		}
	}
	if !IsHeadless(service) {
		return s
	}
	lowest := map[string]int32{}
	for i := range endpoints {
		for _, p := range endpoints[i].Ports {
			name, port := ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0)
			if before := lowest[name]; port != 0 && (before == 0 || port < before) {
				lowest[name] = port
			}
		}
	}
	for _, p := range service.Spec.Ports {
		if port := cmp.Or(lowest[p.Name], p.TargetPort.IntVal); port != 0 {
			s.Ports[p.Port] = port
		}
	}
	return s
}

// IsHeadless returns true for a Service without a ClusterIP.
func IsHeadless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }
