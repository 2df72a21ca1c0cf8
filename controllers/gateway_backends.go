package controllers

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BackendOptions returns the options for the cache of [GatewayReconciler]. namespaces are the namespaces that the
// operator watches. Of Secrets, the cache contains only those of type kubernetes.io/tls.
func BackendOptions(mgr ctrl.Manager, namespaces map[string]cache.Config) cache.Options {
	return cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: stripBackend, DefaultNamespaces: namespaces,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))},
		},
	}
}

// stripBackend keeps only the fields of a Service, an EndpointSlice or a Secret that matter to Gateways. A cluster may
// have very many of them, and the addresses in EndpointSlices change often.
func stripBackend(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Service:
		o.ObjectMeta = strippedMeta(o, nil)
		o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, ClusterIP: o.Spec.ClusterIP, Ports: o.Spec.Ports}
		o.Status = corev1.ServiceStatus{}
	case *discoveryv1.EndpointSlice:
		o.ObjectMeta = strippedMeta(o, map[string]string{
			discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName],
		})
		o.Endpoints = nil
	case *corev1.Secret:
		stripSecret(o)
	}
	return object, nil
}

func strippedMeta(of client.Object, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
		Labels: labels,
	}
}
