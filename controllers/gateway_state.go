package controllers

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// read reads the objects that determine what the Gateways of a CacheNode serve. cacheNode is nil if there is none.
func (r *GatewayReconciler) read(
	ctx context.Context, name types.NamespacedName, cacheNode *v1alpha1.CacheNode,
) (gateways.State, error) {
	classes, list := &gw.GatewayClassList{}, &gw.GatewayList{}
	routes, grants, namespaces := &gw.HTTPRouteList{}, &gw.ReferenceGrantList{}, &corev1.NamespaceList{}
	policies := &v1alpha1.CachePolicyList{}
	lists := []client.ObjectList{classes, list, routes, namespaces}
	if r.Grants {
		lists = append(lists, grants)
	}
	if r.Policies {
		lists = append(lists, policies)
	}
	for _, l := range lists {
		if err := r.List(ctx, l); err != nil {
			return gateways.State{}, err
		}
	}
	state := gateways.Objects{
		Classes: classes.Items, Gateways: list.Items, HTTPRoutes: routes.Items, Grants: grants.Items,
		Namespaces: namespaces.Items, Policies: policies.Items,
	}.State(gateways.FleetFor(name, cacheNode, r.ClusterDomain))
	if cacheNode == nil {
		return state, nil
	}
	return state, errors.Join(
		r.readBackends(ctx, &state), r.readCertificates(ctx, &state), r.readDelivered(ctx, cacheNode, &state))
}

// watches returns true for a namespace whose objects the operator reads. watched are the namespaces whose objects it
// reads; none means all namespaces.
func watches(watched []string, namespace string) bool {
	return len(watched) == 0 || slices.Contains(watched, namespace)
}

// watches returns true for a namespace whose objects the operator reads.
func (r *GatewayReconciler) watches(namespace string) bool { return watches(r.Watched, namespace) }

// readBackends adds the Services to which routes may refer. A Service in a namespace that the operator does not watch
// counts as missing.
func (r *GatewayReconciler) readBackends(ctx context.Context, state *gateways.State) error {
	from := services{cache: r.Backends, watched: r.Watched, endpoints: true}
	names := state.Backends()
	r.referred.set(state.Fleet.NamespacedName, serviceKind, names)
	for _, name := range names {
		service, found, err := from.get(ctx, name)
		if err != nil {
			return err
		}
		if found {
			state.Services[name] = service
		}
	}
	return nil
}
