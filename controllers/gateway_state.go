package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// read reads the objects that determine what the Gateways of a CacheNode serve. cacheNode is nil if there is none.
func (r *GatewayReconciler) read(
	ctx context.Context, name types.NamespacedName, cacheNode *v1alpha1.CacheNode,
) (state gateways.State, err error) {
	classes, list := &gw.GatewayClassList{}, &gw.GatewayList{}
	routes, grants, namespaces := &gw.HTTPRouteList{}, &gw.ReferenceGrantList{}, &corev1.NamespaceList{}
	lists := []client.ObjectList{classes, list, routes, namespaces}
	if r.Grants {
		lists = append(lists, grants)
	}
	for _, l := range lists {
		if err := r.List(ctx, l); err != nil {
			return state, err
		}
	}
	state = gateways.State{
		Fleet: gateways.FleetFor(name, cacheNode, r.ClusterDomain), HTTPRoutes: routes.Items, Grants: grants.Items,
		Namespaces: make(map[string]gateways.Namespace, len(namespaces.Items)),
		Elsewhere:  map[types.NamespacedName]bool{}, Services: map[types.NamespacedName]gateways.Service{},
	}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		state.Namespaces[n.Name] = gateways.Namespace{UID: n.UID, Labels: n.Labels}
	}
	fleets := map[gw.ObjectName]types.NamespacedName{}
	for i := range classes.Items {
		if fleet, ok := gateways.FleetOf(&classes.Items[i]); ok {
			fleets[gw.ObjectName(classes.Items[i].Name)] = fleet
		}
	}
	for i := range list.Items {
		g := &list.Items[i]
		switch fleet, ok := fleets[g.Spec.GatewayClassName]; {
		case !ok || !g.DeletionTimestamp.IsZero():
		case fleet == name:
			state.Gateways = append(state.Gateways, *g)
		default:
			state.Elsewhere[client.ObjectKeyFromObject(g)] = true
		}
	}
	if cacheNode == nil {
		return state, nil
	}
	return state, r.readBackends(ctx, &state)
}

// readBackends adds the Services to which routes may refer. A Service in a namespace that the operator does not watch
// counts as missing.
func (r *GatewayReconciler) readBackends(ctx context.Context, state *gateways.State) error {
	for _, name := range state.Backends() {
		if len(r.Watched) > 0 && !slices.Contains(r.Watched, name.Namespace) {
			continue
		}
		service := &corev1.Service{}
		if err := r.Backends.Get(ctx, name, service); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		entry := gateways.Service{External: service.Spec.Type == corev1.ServiceTypeExternalName, Ports: map[int32]int32{}}
		for _, p := range service.Spec.Ports {
			entry.Ports[p.Port] = p.Port
		}
		if service.Spec.ClusterIP == corev1.ClusterIPNone {
			ports, err := r.endpointPorts(ctx, service)
			if err != nil {
				return err
			}
			entry.Ports = ports
		}
		state.Services[name] = entry
	}
	return nil
}

// endpointPorts returns the port of the endpoints for each port of a headless Service. The name of such a Service
// leads to the endpoints themselves. If the endpoints have different ports, requests go to one of the ports. A port
// without endpoints is its own.
func (r *GatewayReconciler) endpointPorts(ctx context.Context, service *corev1.Service) (map[int32]int32, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := r.Backends.List(ctx, list, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return nil, err
	}
	named := map[string]int32{}
	for i := range list.Items {
		for _, p := range list.Items[i].Ports {
			if p.Port != nil && (named[ptr.Deref(p.Name, "")] == 0 || *p.Port < named[ptr.Deref(p.Name, "")]) {
				named[ptr.Deref(p.Name, "")] = *p.Port
			}
		}
	}
	ports := map[int32]int32{}
	for _, p := range service.Spec.Ports {
		if ports[p.Port] = p.Port; named[p.Name] != 0 {
			ports[p.Port] = named[p.Name]
		}
	}
	return ports, nil
}

// applyService writes the Service of a Gateway, and returns it as the API server stores it.
func (r *GatewayReconciler) applyService(ctx context.Context, want *corev1.Service) (*corev1.Service, error) {
	live, _, err := (apply.Applier{Client: r.Client, Live: r.Live}).Apply(ctx, want)
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{}
	return service, runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, service)
}
