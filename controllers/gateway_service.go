package controllers

import (
	"context"
	"errors"
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

// serve assigns ports to the Gateways, and writes their Services. It adds the ports and the addresses to the state. It
// deletes the Services of Gateways that the fleet does not have any more. held contains ports on which a pod may still
// listen.
func (r *GatewayReconciler) serve(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, state *gateways.State, held map[gateways.Port]int32,
) error {
	services, kept, err := r.gatewayServices(ctx, cacheNode)
	if err != nil {
		return err
	}
	if g := cacheNode.Spec.Gateways; g != nil {
		state.Ports = state.AssignedPorts(union(held, kept), gateways.Range{From: g.Ports.From, To: g.Ports.To})
	}
	ports := map[types.NamespacedName]map[int32]int32{}
	for port, number := range state.Ports {
		if ports[port.Gateway] == nil {
			ports[port.Gateway] = map[int32]int32{}
		}
		ports[port.Gateway][port.Number] = number
	}
	var errs []error
	for gateway := range ports {
		service, err := r.applyService(ctx, manifest.GatewayService(cacheNode, gateway, ports[gateway]))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		services[gateway] = service
	}
	state.Addresses = map[types.NamespacedName][]string{}
	for gateway, service := range services {
		if state.Has(gateway) {
			state.Addresses[gateway] = addressesOf(service)
		} else {
			errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, service)))
		}
	}
	return errors.Join(errs...)
}

// gatewayServices returns the Services of a CacheNode's Gateways, and the ports of the pods to which they lead. A
// Gateway that is not served any more keeps its Service, because its address would not come back.
func (r *GatewayReconciler) gatewayServices(ctx context.Context, cacheNode *v1alpha1.CacheNode) (
	services map[types.NamespacedName]*corev1.Service, kept map[gateways.Port]int32, err error,
) {
	list := &corev1.ServiceList{}
	if err := r.List(ctx, list, client.InNamespace(cacheNode.Namespace)); err != nil {
		return nil, nil, err
	}
	services, kept = map[types.NamespacedName]*corev1.Service{}, map[gateways.Port]int32{}
	for i := range list.Items {
		service := &list.Items[i]
		gateway, ports, ok := manifest.GatewayPorts(service)
		if !ok || !isOwn(service, cacheNode) {
			continue
		}
		services[gateway] = service
		for port, number := range ports {
			kept[gateways.Port{Gateway: gateway, Number: port}] = number
		}
	}
	return services, kept, nil
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
