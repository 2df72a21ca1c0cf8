package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// referred contains the Services and Secrets to which the routes and Gateways of each fleet refer, so that other
// Services and Secrets, of which a cluster may have very many, cause no pass. The zero value is empty. It is safe for
// concurrent use.
//
// A pass must set the names before it reads the objects. Then the pass sees each object whose event came earlier.
type referred struct {
	mutex sync.Mutex
	// names are the names of the objects, by kind and fleet.
	names map[referrer]map[types.NamespacedName]bool
}

// referrer is a fleet that refers to objects of a kind.
type referrer struct {
	kind  string
	fleet types.NamespacedName
}

// The kinds of objects to which routes and Gateways refer.
const (
	serviceKind = "Service"
	secretKind  = "Secret"
)

// set sets the objects of a kind to which a fleet refers.
func (r *referred) set(fleet types.NamespacedName, kind string, names []types.NamespacedName) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	of := referrer{kind, fleet}
	delete(r.names, of)
	if len(names) == 0 {
		return
	}
	if r.names == nil {
		r.names = map[referrer]map[types.NamespacedName]bool{}
	}
	r.names[of] = make(map[types.NamespacedName]bool, len(names))
	for _, name := range names {
		r.names[of][name] = true
	}
}

// forget removes the names of a fleet that does not exist.
func (r *referred) forget(fleet types.NamespacedName) {
	r.set(fleet, serviceKind, nil)
	r.set(fleet, secretKind, nil)
}

// to returns the requests for the fleets that refer to a Service, to the Service of an EndpointSlice, or to a Secret.
func (r *referred) to(_ context.Context, object client.Object) (requests []reconcile.Request) {
	kind, name := serviceKind, client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *corev1.Secret:
		kind = secretKind
	case *discoveryv1.EndpointSlice:
		name.Name = object.GetLabels()[discoveryv1.LabelServiceName]
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for of, names := range r.names {
		if of.kind == kind && names[name] {
			requests = append(requests, reconcile.Request{NamespacedName: of.fleet})
		}
	}
	return requests
}
