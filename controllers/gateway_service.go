package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/manifest"
)

// serve assigns ports to the Gateways, and writes their Services. It adds the ports and the addresses to the state.
// held contains the ports on which pods may listen.
//
// A Gateway that is not served any more keeps its Service, because its address would not come back. The Service is
// deleted with the Gateway, or when all of its ports are out of the range of spec.gateways.ports.
func (r *GatewayReconciler) serve(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, state *gateways.State, held gateways.Held,
) error {
	services, err := r.gatewayServices(ctx, cacheNode)
	if err != nil {
		return err
	}
	wanted := map[types.NamespacedName]*corev1.Service{}
	for gateway, ports := range r.assignPorts(cacheNode, state, services, held) {
		wanted[gateway] = manifest.GatewayService(cacheNode, gateway, ports)
	}
	var errs []error
	for gateway, service := range services {
		switch ports := keptPorts(cacheNode, service); {
		case wanted[gateway] != nil:
		case state.Has(gateway) && len(ports) > 0:
			wanted[gateway] = manifest.ClosedGatewayService(cacheNode, gateway, ports)
		default: // unless another one has taken its place
			errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, service, client.Preconditions{UID: &service.UID})))
		}
	}
	state.Addresses = map[types.NamespacedName][]string{}
	for gateway, want := range wanted {
		service, err := r.applyService(ctx, want)
		if err != nil {
			errs = append(errs, err)
			service = services[gateway]
		}
		if service != nil && service.DeletionTimestamp.IsZero() {
			state.Addresses[gateway] = addressesOf(service)
		}
	}
	return errors.Join(errs...)
}

// assignPorts adds the ports of the Gateways to the state, and returns them.
func (r *GatewayReconciler) assignPorts(
	cacheNode *v1alpha1.CacheNode, state *gateways.State, services map[types.NamespacedName]*corev1.Service,
	held gateways.Held,
) map[types.NamespacedName]map[int32]int32 {
	current := map[gateways.Port]int32{}
	for gateway, service := range services {
		_, ports, _ := manifest.GatewayPorts(service)
		for port, number := range ports {
			current[gateways.Port{Gateway: gateway, Number: port}] = number
		}
	}
	if g := cacheNode.Spec.Gateways; g != nil {
		state.Ports = state.AssignedPorts(current, held, gateways.Range{From: g.Ports.From, To: g.Ports.To})
	}
	assigned := map[types.NamespacedName]map[int32]int32{}
	for port, number := range state.Ports {
		if assigned[port.Gateway] == nil {
			assigned[port.Gateway] = map[int32]int32{}
		}
		assigned[port.Gateway][port.Number] = number
	}
	return assigned
}

// keptPorts returns the ports of the Service of a Gateway that is not served, without those that are out of range.
func keptPorts(cacheNode *v1alpha1.CacheNode, service *corev1.Service) map[int32]int32 {
	_, ports, _ := manifest.GatewayPorts(service)
	if g := cacheNode.Spec.Gateways; g != nil {
		maps.DeleteFunc(ports, func(_, number int32) bool { return number < g.Ports.From || number > g.Ports.To })
	}
	return ports
}

// gatewayServices returns the Services of a CacheNode's Gateways, by Gateway.
func (r *GatewayReconciler) gatewayServices(
	ctx context.Context, cacheNode *v1alpha1.CacheNode,
) (map[types.NamespacedName]*corev1.Service, error) {
	list := &corev1.ServiceList{}
	if err := r.List(ctx, list, client.InNamespace(cacheNode.Namespace)); err != nil {
		return nil, err
	}
	services := map[types.NamespacedName]*corev1.Service{}
	for i := range list.Items {
		if gateway, _, ok := manifest.GatewayPorts(&list.Items[i]); ok && isOwn(&list.Items[i], cacheNode) {
			services[gateway] = &list.Items[i]
		}
	}
	return services, nil
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

// addressesOf returns the addresses at which clients reach a Service.
func addressesOf(service *corev1.Service) (addresses []string) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return slices.DeleteFunc(slices.Clone(service.Spec.ClusterIPs), func(ip string) bool {
			return ip == corev1.ClusterIPNone
		})
	}
	for _, i := range service.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			addresses = append(addresses, i.IP)
		} else if i.Hostname != "" {
			addresses = append(addresses, i.Hostname)
		}
	}
	return addresses
}
