package controllers

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const aPolicy = `
apiVersion: cachenode.io/v1alpha1
kind: CachePolicy
metadata: {name: shop, namespace: team}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
  staleIfError: 1h
`

// TestPolicy checks that the routes of a CacheNode follow a CachePolicy, that its status says so, that a pass at rest
// writes nothing, and that a policy whose route is gone says that too.
func TestPolicy(t *testing.T) {
	t.Parallel()
	o := gatewayOperator(t)
	o.apply(aGateway)
	cacheNode := o.create(aFleet)
	o.apply(aPolicy)
	o.settle(cacheNode)
	policy := &v1alpha1.CachePolicy{ObjectMeta: team("shop")}
	// is waits until the policy's only ancestor has a kind, and its condition Accepted a status and a reason.
	is := func(kind, accepted string) {
		t.Helper()
		o.eventually(func() string {
			o.get(policy)
			if list := policy.Status.Ancestors; len(list) != 1 || string(*list[0].AncestorRef.Kind) != kind ||
				condition(list[0].Conditions, "Accepted") != accepted {
				return "the policy does not say " + kind + " " + accepted
			}
			return ""
		})
	}
	staleIfError := func() v1alpha1.Duration {
		table := o.table(cacheNode)
		if rules := table.Rules(table.Routes[0].Rules[0].Policy); rules != nil {
			return rules.StaleIfError
		}
		return ""
	}
	is("Gateway", "True Accepted")
	if got := staleIfError(); got != "1h" {
		t.Errorf("the route's policy has %q", got)
	}
	o.writesNothing(cacheNode, 3)
	edited := policy.DeepCopy()
	edited.Spec.StaleIfError = "2h"
	must(t, o.client.Patch(context.Background(), edited, client.MergeFrom(policy)))
	o.eventually(func() string {
		if got := staleIfError(); got != "2h" {
			return "the route's policy has " + string(got)
		}
		return ""
	})
	must(t, o.client.Delete(context.Background(), &gw.HTTPRoute{ObjectMeta: team("shop")}))
	is("HTTPRoute", "False TargetNotFound")
}
