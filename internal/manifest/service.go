package manifest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// clientService returns the Service that clients use.
func clientService(in Input) *corev1.Service {
	spec := in.CacheNode.Spec.Service
	meta := objectMeta(in, in.CacheNode.Name)
	meta.Annotations = maps.Clone(spec.Annotations)
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:              spec.Type,
			Selector:          naming.PodSelector(in.CacheNode.Name),
			LoadBalancerClass: spec.LoadBalancerClass,
			Ports: []corev1.ServicePort{{
				Name:       layout.PortHTTP,
				Protocol:   corev1.ProtocolTCP,
				Port:       ptr.Deref(spec.Port, 0),
				TargetPort: intstr.FromString(layout.PortHTTP),
			}},
		},
	}
	if tls := in.CacheNode.Spec.Listen.TLS; tls != nil {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name:       layout.PortHTTPS,
			Protocol:   corev1.ProtocolTCP,
			Port:       ptr.Deref(spec.HTTPSPort, 0),
			TargetPort: intstr.FromString(layout.PortHTTPS),
		})
		if tls.HTTP3 {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
				Name:     layout.PortHTTP3,
				Protocol: corev1.ProtocolUDP,
				Port:     ptr.Deref(spec.HTTPSPort, 0),
				// The target is a port number, so that pods need no port with this name.
				TargetPort: intstr.FromInt32(ptr.Deref(tls.Port, 0)),
			})
		}
	}
	if spec.ExternalTrafficPolicy != nil {
		service.Spec.ExternalTrafficPolicy = *spec.ExternalTrafficPolicy
	}
	if in.CacheNode.Spec.Routing.Scope == v1alpha1.ScopeZone {
		service.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose)
	}
	return service
}

// headlessService gives the pods their DNS names. It also lists pods that are not ready, because clients do not use
// it.
func headlessService(in Input) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(in, naming.Headless(in.CacheNode.Name)),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 naming.PodSelector(in.CacheNode.Name),
			PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{
				{
					Name:       layout.PortHTTP,
					Protocol:   corev1.ProtocolTCP,
					Port:       ptr.Deref(in.CacheNode.Spec.Listen.Port, 0),
					TargetPort: intstr.FromString(layout.PortHTTP),
				},
				{
					Name:       layout.PortPrivate,
					Protocol:   corev1.ProtocolTCP,
					Port:       layout.PrivatePort,
					TargetPort: intstr.FromString(layout.PortPrivate),
				},
				{
					Name:       layout.PortMetrics,
					Protocol:   corev1.ProtocolTCP,
					Port:       layout.MetricsPort,
					TargetPort: intstr.FromString(layout.PortMetrics),
				},
			},
		},
	}
}
