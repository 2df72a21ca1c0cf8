package controllers

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// writeStatuses writes the statuses that have changed.
func (r *GatewayReconciler) writeStatuses(ctx context.Context, state gateways.State, result gateways.Result) error {
	var errs []error
	for i := range state.Gateways {
		g := &state.Gateways[i]
		status, ok := result.Gateways[client.ObjectKeyFromObject(g)]
		if !ok {
			continue
		}
		after := g.DeepCopy()
		status.Conditions = follow(g.Status.Conditions, status.Conditions)
		for j := range status.Listeners {
			l := &status.Listeners[j]
			at := slices.IndexFunc(g.Status.Listeners, func(s gw.ListenerStatus) bool { return s.Name == l.Name })
			if at >= 0 {
				l.Conditions = follow(g.Status.Listeners[at].Conditions, l.Conditions)
			} else {
				l.Conditions = follow(nil, l.Conditions)
			}
		}
		after.Status = status
		if !equality.Semantic.DeepEqual(g.Status, after.Status) {
			errs = append(errs, writeGatewayStatus(ctx, r.Client, g, after))
		}
	}
	for i := range state.HTTPRoutes {
		route := &state.HTTPRoutes[i]
		after := route.DeepCopy()
		after.Status.Parents = parents(state, route, result.Parents[client.ObjectKeyFromObject(route)])
		if !equality.Semantic.DeepEqual(route.Status, after.Status) {
			errs = append(errs, writeGatewayStatus(ctx, r.Client, route, after))
		}
	}
	for i := range state.Policies {
		policy := &state.Policies[i]
		after := policy.DeepCopy()
		after.Status.Ancestors = ancestors(state, policy, result.Policies[client.ObjectKeyFromObject(policy)])
		if !equality.Semantic.DeepEqual(policy.Status, after.Status) {
			errs = append(errs, writeGatewayStatus(ctx, r.Client, policy, after))
		}
	}
	return errors.Join(errs...)
}

// maxAncestors is the maximum number of Gateways in the status of a policy (GEP-713).
const maxAncestors = 16

// ancestors returns the list of ancestors in the status of a policy. As in parents, only the entries of the fleet
// change, and the list may not be null.
func ancestors(
	state gateways.State, policy *v1alpha1.CachePolicy, want []gw.PolicyAncestorStatus,
) []gw.PolicyAncestorStatus {
	had, list := policy.Status.Ancestors, []gw.PolicyAncestorStatus{}
	is := func(a gw.PolicyAncestorStatus) func(gw.PolicyAncestorStatus) bool {
		return func(b gw.PolicyAncestorStatus) bool {
			return a.ControllerName == b.ControllerName && equality.Semantic.DeepEqual(a.AncestorRef, b.AncestorRef)
		}
	}
	for _, a := range had { // the order stays, because several passes write the list
		if at := slices.IndexFunc(want, is(a)); at >= 0 {
			a.Conditions = follow(a.Conditions, want[at].Conditions)
			list = append(list, a)
		} else if a.ControllerName != gateways.Controller || state.IsElsewhere(a.AncestorRef, policy.Namespace) {
			list = append(list, a)
		}
	}
	for _, a := range want {
		if !slices.ContainsFunc(had, is(a)) {
			a.Conditions = follow(nil, a.Conditions)
			list = append(list, a)
		}
	}
	return list[:min(len(list), maxAncestors)]
}

// parents returns the list of parents in the status of a route. Only the entries for Gateways of the fleet, and for
// Gateways that are gone, change. Another controller, or a pass over another CacheNode, owns the other entries.
//
// The list may be empty, but not null.
func parents(state gateways.State, route *gw.HTTPRoute, want []gw.RouteParentStatus) []gw.RouteParentStatus {
	had, list := route.Status.Parents, []gw.RouteParentStatus{}
	for _, p := range had {
		isNamed := slices.ContainsFunc(route.Spec.ParentRefs, func(ref gw.ParentReference) bool {
			return equality.Semantic.DeepEqual(ref, p.ParentRef)
		})
		if p.ControllerName != gateways.Controller || isNamed && state.IsElsewhere(p.ParentRef, route.Namespace) {
			list = append(list, p)
		}
	}
	for _, p := range want {
		at := slices.IndexFunc(had, func(s gw.RouteParentStatus) bool {
			return s.ControllerName == p.ControllerName && equality.Semantic.DeepEqual(s.ParentRef, p.ParentRef)
		})
		if at >= 0 {
			p.Conditions = follow(had[at].Conditions, p.Conditions)
		} else {
			p.Conditions = follow(nil, p.Conditions)
		}
		list = append(list, p)
	}
	return list
}

// follow returns the conditions that are wanted. If the status of a condition is the same as before, the condition
// keeps the time of its last transition.
func follow(had, want []metav1.Condition) (conditions []metav1.Condition) {
	for _, c := range want {
		if before := meta.FindStatusCondition(had, c.Type); before != nil {
			conditions = append(conditions, *before)
		}
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}

// writeGatewayStatus writes the status of an object of the Gateway API. If somebody else has changed the object, it
// returns a conflict. For an object that is gone, it does nothing.
func writeGatewayStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.Status().Patch(ctx, after, patch, client.FieldOwner(naming.FieldManager))
	return client.IgnoreNotFound(err)
}
