package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestGivenTables checks that pods count as running a table that a pass of the other controller has got, until that
// pass has ended. If another table was decided in the meantime, the end causes a pass of the Gateways, because the
// statuses may have waited for it.
func TestGivenTables(t *testing.T) {
	t.Parallel()
	fleet := types.NamespacedName{Namespace: "edge", Name: "edge"}
	table := func(name string) routes.Table {
		return routes.Table{Routes: []routes.Route{{Namespace: "team", Name: name}}}
	}
	e := NewGatewayExchange()
	e.toGateways = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(e.toGateways.ShutDown)
	serving := listening{running: map[string]routes.Table{"revision": table("first")}}
	first, second := table("first"), table("second")
	for i, step := range []struct {
		do     func()
		tables []routes.Table
		causes bool
	}{
		{func() { e.setTable(fleet, first) }, nil, false},
		{func() { e.setListening(fleet, listening{}, true) }, nil, true},
		{func() { e.table(fleet) }, nil, false}, // no pod is ready, so none serves it
		{func() { e.setListening(fleet, serving, true) }, []routes.Table{first}, true},
		{func() { e.setTable(fleet, second) }, []routes.Table{first}, false},
		{func() { e.table(fleet); e.table(fleet) }, []routes.Table{first, second}, false},
		{func() { e.setListening(fleet, serving, true) }, []routes.Table{first}, false}, // second is still to be offered
		{func() { e.table(fleet); e.setTable(fleet, first) }, []routes.Table{first, second}, false},
		{func() { e.setListening(fleet, serving, true) }, []routes.Table{first}, true},
		{func() { e.table(fleet) }, []routes.Table{first, first}, false},
		{func() { e.setListening(fleet, serving, true) }, []routes.Table{first}, false},
	} {
		step.do()
		if diff := cmp.Diff(gateways.Running{Tables: step.tables}, e.running(fleet)); diff != "" {
			t.Errorf("after step %d (-want +got)\n%s", i, diff)
		}
		causes := e.toGateways.Len() > 0
		if causes != step.causes {
			t.Errorf("step %d causes a pass: %t, want %t", i, causes, step.causes)
		}
		if causes {
			request, _ := e.toGateways.Get()
			e.toGateways.Done(request)
		}
	}
}
