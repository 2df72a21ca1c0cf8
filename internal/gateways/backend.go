package gateways

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// backends returns the backends of a rule, and the problems of the references that cannot be used.
func (d *decision) backends(at, namespace string, refs []gw.HTTPBackendRef) (
	backends []routes.Backend, unresolved []*problem,
) {
	for i, ref := range refs {
		weight := ptr.Deref(ref.Weight, 1)
		b, p := d.backend(fmt.Sprintf("%s.backendRefs[%d]", at, i), namespace, ref.BackendObjectReference)
		if p != nil {
			unresolved = append(unresolved, p)
		}
		if b.Weight = weight; weight > 0 {
			backends = append(backends, b)
		}
	}
	return backends, unresolved
}

// backend returns the backend that a reference in a route names. A backend with a problem has no host.
func (d *decision) backend(at, namespace string, ref gw.BackendObjectReference) (routes.Backend, *problem) {
	name, problem := d.serviceOf(namespace, ref)
	port := ptr.Deref(ref.Port, 0)
	b := routes.Backend{Name: fmt.Sprintf("%s:%d", name, port)}
	if len(validation.IsDNS1123Label(name.Name)) > 0 {
		b.Name = fmt.Sprintf("%.100q:%d", name, port)
	}
	if problem != nil {
		problem.message = at + ": " + problem.message
		return b, problem
	}
	service, ok := d.Services[name]
	if !ok {
		return b, problemf(gw.RouteReasonBackendNotFound, "%s: Service %s does not exist", at, name)
	}
	if service.External {
		return b, problemf(gw.RouteReasonUnsupportedProtocol,
			"%s: Service %s is of type ExternalName, which is not supported", at, name)
	}
	target, ok := service.Ports[port]
	if !ok {
		return b, problemf(gw.RouteReasonBackendNotFound, "%s: Service %s has no port %d", at, name, port)
	}
	if protocol := service.Protocols[port]; protocol != "" {
		return b, problemf(gw.RouteReasonUnsupportedProtocol,
			"%s: port %d of Service %s has appProtocol %.100q, which is not supported: backends are asked with HTTP/1.1",
			at, port, name, protocol)
	}
	b.Host, b.Port = naming.ServiceHost(name.Name, name.Namespace, d.Fleet.ClusterDomain), target
	return b, nil
}

// serviceOf returns the name of the Service to which a route in the given namespace refers, or a problem if the route
// must not refer to it.
func (s State) serviceOf(namespace string, ref gw.BackendObjectReference) (types.NamespacedName, *problem) {
	name := types.NamespacedName{
		Namespace: string(ptr.Deref(ref.Namespace, gw.Namespace(namespace))), Name: string(ref.Name),
	}
	group, kind := ptr.Deref(ref.Group, ""), ptr.Deref(ref.Kind, "Service")
	if group != "" || kind != "Service" {
		return name, problemf(gw.RouteReasonInvalidKind, "%s of group %q is not supported: name a Service", kind, group)
	}
	if len(validation.IsDNS1123Label(name.Name)) > 0 { // the API server accepts any text here
		return name, problemf(gw.RouteReasonBackendNotFound, "%.100q is no name of a Service", name.Name)
	}
	if name.Namespace != namespace && !s.Grants.allows(toService, namespace, name.Namespace, name.Name) {
		return name, problemf(gw.RouteReasonRefNotPermitted,
			"no ReferenceGrant in namespace %s lets this route refer to Service %s", name.Namespace, name.Name)
	}
	return name, nil
}
