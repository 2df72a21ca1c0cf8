package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// TestTellRefused checks which routes count as refused when a pod names them: only those that the refused revision
// changes.
func TestTellRefused(t *testing.T) {
	t.Parallel()
	table := func(path string) routes.Table {
		of := func(name, path string) routes.Route {
			return routes.Route{Namespace: "team", Name: name, Rules: []routes.Rule{{
				Matches: []routes.Match{{Path: routes.Path{Value: path}}},
			}}}
		}
		return routes.Table{
			Listeners: []routes.Listener{{Gateway: "team/main", Name: "http", PodPort: 20000, Attached: []routes.Attachment{
				{Route: "team/changed", Hosts: []routes.Host{"a.example.com"}},
				{Route: "team/same", Hosts: []routes.Host{"b.example.com"}},
			}}},
			Routes: []routes.Route{of("changed", path), of("same", "/")},
		}
	}
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "edge"}}
	name := client.ObjectKeyFromObject(cacheNode)
	r := &CacheNodeReconciler{Exchange: NewGatewayExchange()}
	var w wanted
	w.target.Revision = agentapi.Revision{ID: "new", Routes: table("/new")}
	o := observed{offered: offered{stable: &agentapi.Revision{ID: "old", Routes: table("/old")}}}
	r.tellRefused(scope{cacheNode: cacheNode}, o, w, rolled{rollout: &status.Rollout{Refused: &agentapi.Refusal{
		Revision: "new", Message: "no", Routes: []string{"team/changed", "team/same", "team/unknown"},
	}}})
	got := r.Exchange.refusedBy(name)
	if len(got) != 1 || got["team/changed"].Message != "no" || got["team/changed"].Good == nil {
		t.Errorf("refused: %v", got)
	}
	for reason, done := range map[string]rolled{
		"another revision": {rollout: &status.Rollout{Refused: &agentapi.Refusal{
			Revision: "newer", Routes: []string{"team/changed"},
		}}},
		"no refusal": {rollout: &status.Rollout{}},
		"no rollout": {},
	} {
		r.Exchange = NewGatewayExchange()
		r.tellRefused(scope{cacheNode: cacheNode}, o, w, done)
		if got := r.Exchange.refusedBy(name); len(got) != 0 {
			t.Errorf("%s: refused: %v", reason, got)
		}
	}
}

// TestRoutesWithoutTheGatewayAPI checks that the pods keep their routes if the operator can no longer read the Gateway
// API, for example because it was restarted without a permission.
func TestRoutesWithoutTheGatewayAPI(t *testing.T) {
	t.Parallel()
	served := agentapi.Revision{ID: "old", Routes: routes.Table{Routes: []routes.Route{{Namespace: "team", Name: "shop"}}}}
	o := observed{offered: offered{stable: &served}}
	cacheNode := &v1alpha1.CacheNode{}
	for gateways, want := range map[*v1alpha1.Gateways]int{nil: 0, {}: 1} {
		cacheNode.Spec.Gateways = gateways
		if got := (&CacheNodeReconciler{}).routes(scope{cacheNode: cacheNode}, o, &outcome{}); len(got.Routes) != want {
			t.Errorf("spec.gateways %v: %d routes, want %d", gateways, len(got.Routes), want)
		}
	}
}
