package manifest

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// GatewayService returns the Service through which clients reach a Gateway. ports maps each port of the Gateway to the
// port of the pods; it is not empty. The Service has the type of the CacheNode's own Service.
//
// A Service selects only pods of its own namespace, so it is in the namespace of the CacheNode. The CacheNode owns it,
// because an owner must be in the same namespace. The target of a port is a number, so the pods need no port with a
// name.
func GatewayService(
	cacheNode *v1alpha1.CacheNode, gateway types.NamespacedName, ports map[int32]int32,
) *corev1.Service {
	own := cacheNode.Spec.Service
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   cacheNode.Namespace,
			Name:        naming.Gateway(gateway.Namespace, gateway.Name),
			Labels:      naming.GatewayLabels(cacheNode.Name, gateway.Namespace, gateway.Name),
			Annotations: map[string]string{naming.AnnotationGateway: gateway.String()},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(cacheNode, v1alpha1.GroupVersion.WithKind("CacheNode")),
			},
		},
		Spec: corev1.ServiceSpec{
			Type: own.Type, LoadBalancerClass: own.LoadBalancerClass, Selector: naming.PodSelector(cacheNode.Name),
		},
	}
	if own.ExternalTrafficPolicy != nil {
		service.Spec.ExternalTrafficPolicy = *own.ExternalTrafficPolicy
	}
	if cacheNode.Spec.Routing.Scope == v1alpha1.ScopeZone {
		service.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose)
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("port-%d", port), Protocol: corev1.ProtocolTCP,
			Port: port, TargetPort: intstr.FromInt32(ports[port]),
		})
	}
	return service
}

// ClosedGatewayService returns the Service of a Gateway that is not served now. It keeps the address of the Gateway. It
// selects no pod, so it refuses connections.
func ClosedGatewayService(
	cacheNode *v1alpha1.CacheNode, gateway types.NamespacedName, ports map[int32]int32,
) *corev1.Service {
	service := GatewayService(cacheNode, gateway, ports)
	service.Spec.Selector = map[string]string{naming.LabelClosed: "true"}
	return service
}

// GatewayPorts returns the Gateway of a Service that GatewayService has made, and the ports of the Service. ok is
// false for any other Service.
func GatewayPorts(service *corev1.Service) (gateway types.NamespacedName, ports map[int32]int32, ok bool) {
	gateway = naming.Split(service.Annotations[naming.AnnotationGateway])
	if gateway.Name == "" {
		return gateway, nil, false
	}
	ports = map[int32]int32{}
	for _, p := range service.Spec.Ports {
		ports[p.Port] = p.TargetPort.IntVal
	}
	return gateway, ports, true
}
