package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// services reads the Services to which CacheNodes and routes refer, and the ports of their endpoints. It is safe for
// concurrent use.
type services struct {
	// cache contains stripped Services and EndpointSlices; see [StripReference].
	cache client.Reader
	// watched are the namespaces whose objects can be read; none means all namespaces.
	watched []string
	// endpoints is true if EndpointSlices can be read.
	endpoints bool
}

// byService is the name of the index of EndpointSlices by their Service.
const byService = "service"

func indexServices(c cache.Cache) error {
	serviceOf := func(o client.Object) []string { return []string{o.GetLabels()[discoveryv1.LabelServiceName]} }
	return c.IndexField(context.Background(), &discoveryv1.EndpointSlice{}, byService, serviceOf)
}

// get returns a Service. found is false if it does not exist, or if it is in a namespace that the operator does not
// watch.
func (s services) get(ctx context.Context, name types.NamespacedName) (of gateways.Service, found bool, err error) {
	if !watches(s.watched, name.Namespace) {
		return of, false, nil
	}
	service, endpoints := &corev1.Service{}, &discoveryv1.EndpointSliceList{}
	if err := s.cache.Get(ctx, name, service); apierrors.IsNotFound(err) {
		return of, false, nil
	} else if err != nil {
		return of, false, err
	}
	if s.endpoints && gateways.IsHeadless(service) {
		if err := s.cache.List(ctx, endpoints, client.InNamespace(name.Namespace),
			client.MatchingFields{byService: name.Name}); err != nil {
			return of, false, err
		}
	}
	return gateways.ServiceOf(service, endpoints.Items), true, nil
}

// StripReference keeps only the fields of an object to which a CacheNode or a route may refer that the operator reads.
// Of an object that is read from the API server, it keeps only the fields that show whether it has changed. A cluster
// may have very many of these objects, and the addresses in EndpointSlices change often.
func StripReference(object any) (any, error) {
	switch o := object.(type) {
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = strippedMeta(o, nil)
	case *corev1.Service:
		o.ObjectMeta = strippedMeta(o, nil)
		o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, ClusterIP: o.Spec.ClusterIP, Ports: o.Spec.Ports}
		o.Status = corev1.ServiceStatus{}
	case *discoveryv1.EndpointSlice:
		o.ObjectMeta = strippedMeta(o, map[string]string{
			discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName],
		})
		o.Endpoints = nil
	}
	return object, nil
}

func strippedMeta(of client.Object, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
		Labels: labels,
	}
}

// isOtherReference returns true for an update of a stripped object that can matter to those who refer to it; see
// [StripReference] and [CertificateOptions].
func isOtherReference(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.DeepCopyObject().(client.Object), e.ObjectNew
	before.SetResourceVersion(after.GetResourceVersion())
	return !equality.Semantic.DeepEqual(before, after)
}
