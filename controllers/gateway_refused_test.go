package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestRefusedRoute checks that a route that nginx refuses stays at the form that the pods serve, and that the edits of
// other routes go on. nginx is replaced by agents that refuse each revision in which a route has a certain path.
func TestRefusedRoute(t *testing.T) {
	t.Parallel()
	a := newAgents()
	o := startOperator(t, apiserver.Start(t, apiserver.GatewayAPI(t)...), func(r *CacheNodeReconciler) {
		r.Exchange, r.Agents.Calls.Report = NewGatewayExchange(), a.read
	})
	const namespace, bad = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---", "/refused"
	o.apply(namespace + aGateway + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: team}
spec:
  parentRefs: [{name: shop}]
  hostnames: [other.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`)
	cacheNode := o.create(aFleet)
	configMap := &corev1.ConfigMap{}
	configMap.Name, configMap.Namespace = naming.ConfigMap(cacheNode.Name), cacheNode.Namespace
	has := func(r *routes.Route, path string) bool {
		isAt := func(rule routes.Rule) bool { return rule.Matches[0].Path.Value == path }
		return r != nil && slices.ContainsFunc(r.Rules, isAt)
	}
	a.set(func() {
		a.o = o
		a.refusesOf = func(wanted string) (ids []string) {
			live := configMap.DeepCopy()
			if o.client.Get(context.Background(), client.ObjectKeyFromObject(live), live) != nil {
				return nil
			}
			offered := readOffered(live)
			for _, revision := range []*agentapi.Revision{offered.stable, offered.candidate} {
				if revision == nil || revision.ID != wanted {
					continue
				}
				for i := range revision.Routes.Routes {
					if r := &revision.Routes.Routes[i]; has(r, bad) {
						ids = append(ids, r.ID())
					}
				}
			}
			return ids
		}
	})
	o.eventually(func() string {
		if len(children(cacheNode)) == 0 || o.client.Get(context.Background(),
			client.ObjectKeyFromObject(children(cacheNode)[0]), children(cacheNode)[0]) != nil {
			return "there is no StatefulSet"
		}
		return ""
	})
	o.makePods(cacheNode, 1)
	o.rollOut(cacheNode)
	setPath := func(name, path string) {
		t.Helper()
		route := &gw.HTTPRoute{ObjectMeta: team(name)}
		o.get(route)
		before := route.DeepCopy()
		route.Spec.Rules[0].Matches = []gw.HTTPRouteMatch{{Path: &gw.HTTPPathMatch{
			Type: new(gw.PathMatchPathPrefix), Value: new(path),
		}}}
		must(t, o.client.Patch(context.Background(), route, client.MergeFrom(before)))
	}
	// serves waits until the stable revision has the routes at these paths.
	serves := func(shop, other string) {
		t.Helper()
		o.eventually(func() string {
			o.get(configMap)
			stable := readOffered(configMap).stable
			if stable == nil || !has(stable.Routes.Route("team/shop"), shop) || !has(stable.Routes.Route("team/other"), other) {
				return "the stable revision has other routes than " + shop + " and " + other
			}
			return ""
		})
	}
	isPartial := func(want string) {
		t.Helper()
		o.eventually(func() string {
			route := &gw.HTTPRoute{ObjectMeta: team("shop")}
			o.get(route)
			c := meta.FindStatusCondition(route.Status.Parents[0].Conditions, string(gw.RouteConditionPartiallyInvalid))
			if (c != nil) != (want != "") || c != nil && !strings.HasPrefix(c.Message, want) {
				return "the condition is " + condition(route.Status.Parents[0].Conditions, "PartiallyInvalid") + ", want " + want
			}
			return ""
		})
	}
	serves("/", "/")
	setPath("shop", bad)
	isPartial("Fall Back: nginx refuses the route: host not found.")
	serves("/", "/")
	setPath("other", "/new")
	serves("/", "/new")
	isPartial("Fall Back:")
	setPath("shop", "/good")
	serves("/good", "/new")
	isPartial("")
}
