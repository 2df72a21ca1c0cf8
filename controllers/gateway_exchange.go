package controllers

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// GatewayExchange passes values between [GatewayReconciler] and [CacheNodeReconciler]. The first decides which routes
// the pods of a CacheNode are to serve, and the second reports on which ports the pods listen. A changed value causes
// a pass of the other reconciler. It is safe for concurrent use.
type GatewayExchange struct {
	mutex     sync.Mutex
	tables    map[types.NamespacedName]routes.Table
	listening map[types.NamespacedName]listening
	// given are the tables that a pass of [CacheNodeReconciler] has got since the last report, each once. The pass may be
	// about to offer such a table to the pods.
	given map[types.NamespacedName][]routes.Table
	// refused are the routes that nginx has refused, by CacheNode and ID.
	refused map[types.NamespacedName]map[string]gateways.Refused
	// toCacheNodes and toGateways are the queues of the two controllers; nil before a controller starts.
	toCacheNodes, toGateways workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// listening describes what the pods of a CacheNode serve for Gateways.
type listening struct {
	// running are the tables that the ready pods serve or may soon serve, by revision. unknown is true if the revision
	// of one of these pods is not known.
	running map[string]routes.Table
	unknown bool
	// held contains the ports on which a pod may listen.
	held gateways.Held
	// certificates are the IDs of the certificates that a pod may need.
	certificates map[string]bool
	// ignoresPolicies is true if the agent of a pod does not know policies.
	ignoresPolicies bool
}

// isLike returns true if both describe the same. Two revisions with the same ID have the same table.
func (l listening) isLike(other listening) bool {
	revisions := func(l listening) []string { return slices.Sorted(maps.Keys(l.running)) }
	return slices.Equal(revisions(l), revisions(other)) && l.unknown == other.unknown &&
		l.ignoresPolicies == other.ignoresPolicies &&
		maps.Equal(l.held, other.held) && maps.Equal(l.certificates, other.certificates)
}

// NewGatewayExchange returns an exchange without values.
func NewGatewayExchange() *GatewayExchange {
	return &GatewayExchange{
		tables: map[types.NamespacedName]routes.Table{}, listening: map[types.NamespacedName]listening{},
		refused: map[types.NamespacedName]map[string]gateways.Refused{}, given: map[types.NamespacedName][]routes.Table{},
	}
}

// forCacheNodes returns the source that gives the exchange the queue of the controller of CacheNodes.
func (e *GatewayExchange) forCacheNodes() source.Source {
	return e.queueTo(&e.toCacheNodes)
}

// forGateways returns the source that gives the exchange the queue of the controller of Gateways.
func (e *GatewayExchange) forGateways() source.Source {
	return e.queueTo(&e.toGateways)
}

// queueTo returns a source that writes the queue of its controller to a field of the exchange.
func (e *GatewayExchange) queueTo(field *workqueue.TypedRateLimitingInterface[reconcile.Request]) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		*field = queue
		return nil
	})
}

// setTable sets the routes that the pods of a CacheNode are to serve.
func (e *GatewayExchange) setTable(cacheNode types.NamespacedName, table routes.Table) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	before, known := e.tables[cacheNode]
	if known && reflect.DeepEqual(before, table) {
		return
	}
	e.tables[cacheNode] = table
	if e.toCacheNodes != nil {
		e.toCacheNodes.Add(reconcile.Request{NamespacedName: cacheNode})
	}
}

// table returns the routes that the pods of a CacheNode are to serve. known is false if they were not decided yet.
func (e *GatewayExchange) table(cacheNode types.NamespacedName) (table routes.Table, known bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	table, known = e.tables[cacheNode]
	isSame := func(t routes.Table) bool { return reflect.DeepEqual(t, table) }
	if known && !slices.ContainsFunc(e.given[cacheNode], isSame) {
		e.given[cacheNode] = append(e.given[cacheNode], table)
	}
	return table, known
}

// needed returns the certificates that a pod may need: those of the revisions in the ConfigMap, and of the tables that
// may become a revision.
func (e *GatewayExchange) needed(cacheNode types.NamespacedName) map[string]bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	ids := union(e.listening[cacheNode].certificates, certificatesOf(e.tables[cacheNode]))
	for _, t := range e.given[cacheNode] {
		maps.Copy(ids, certificatesOf(t))
	}
	return ids
}

// held returns the ports on which a pod may listen, or may soon: of the revisions in the ConfigMap, and of the tables
// that may become a revision.
func (e *GatewayExchange) held(cacheNode types.NamespacedName) gateways.Held {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	held := gateways.Held{}
	held.Add(e.listening[cacheNode].held)
	for _, t := range append(slices.Clone(e.given[cacheNode]), e.tables[cacheNode]) {
		held.Add(portsOf(t))
	}
	return held
}

// portsOf returns the ports of the pods for the listeners of a table.
func portsOf(table routes.Table) gateways.Held {
	ports := gateways.Held{}
	for _, l := range table.Listeners {
		ports[l.PodPort] = gateways.Port{Gateway: naming.Split(l.Gateway), Number: l.Port}
	}
	return ports
}

// running returns what the ready pods of a CacheNode serve, or may take at any time.
func (e *GatewayExchange) running(cacheNode types.NamespacedName) gateways.Running {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	l := e.listening[cacheNode]
	r := gateways.Running{Unknown: l.unknown, Tables: slices.Collect(maps.Values(l.running))}
	if len(r.Tables) > 0 { // otherwise no pod is ready
		r.Tables = append(r.Tables, e.given[cacheNode]...)
	}
	return r
}

// ignoresPolicies returns true if the agent of a pod of a CacheNode does not know policies.
func (e *GatewayExchange) ignoresPolicies(cacheNode types.NamespacedName) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.listening[cacheNode].ignoresPolicies
}

// certificatesOf returns the IDs of the certificates in a table.
func certificatesOf(table routes.Table) map[string]bool {
	ids := map[string]bool{}
	for _, id := range table.Certificates() {
		ids[id] = true
	}
	return ids
}

// withTables returns the names of the CacheNodes whose routes were decided.
func (e *GatewayExchange) withTables() []types.NamespacedName {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Collect(maps.Keys(e.tables))
}

// setListening sets the ports on which the pods of a CacheNode listen. If whole is false, some pods may listen on
// ports that are not in held; then the ports that were held before stay held. Certificates of earlier revisions are not
// kept, because an agent keeps its own copies of those that its nginx uses.
func (e *GatewayExchange) setListening(cacheNode types.NamespacedName, now listening, whole bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	given := e.given[cacheNode]
	delete(e.given, cacheNode) // the pass that got them has ended, and its revision counts now
	wasReplaced := func(t routes.Table) bool { return !reflect.DeepEqual(t, e.tables[cacheNode]) }
	before, known := e.listening[cacheNode]
	if !whole {
		now.held = union(before.held, now.held)
	}
	if known && now.isLike(before) && !slices.ContainsFunc(given, wasReplaced) {
		return
	}
	e.listening[cacheNode] = now
	if e.toGateways != nil {
		e.toGateways.Add(reconcile.Request{NamespacedName: cacheNode})
	}
}

// addRefused adds a form of a route that nginx has refused. served are the routes that the pods serve.
func (e *GatewayExchange) addRefused(cacheNode types.NamespacedName, id, form, message string, served routes.Table) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	before := e.refused[cacheNode][id]
	if form == "" || before.Forms[form] {
		return
	}
	now := gateways.Refused{
		Forms: union(before.Forms, map[string]bool{form: true}), Message: message,
		Good: served.Route(id), Policies: served.Policies,
	}
	e.refused[cacheNode] = union(e.refused[cacheNode], map[string]gateways.Refused{id: now})
	if e.toGateways != nil {
		e.toGateways.Add(reconcile.Request{NamespacedName: cacheNode})
	}
}

// refusedBy returns the routes of a CacheNode that nginx has refused, by ID. The caller must not change the map.
func (e *GatewayExchange) refusedBy(cacheNode types.NamespacedName) map[string]gateways.Refused {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.refused[cacheNode]
}

// keepRefused forgets the refused routes that have changed since then. before are all refused routes, as
// [GatewayExchange.refusedBy] has returned them, and now are those that have not changed.
func (e *GatewayExchange) keepRefused(cacheNode types.NamespacedName, before, now map[string]gateways.Refused) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	rest := maps.Clone(e.refused[cacheNode])
	for id := range before {
		if _, ok := now[id]; !ok {
			delete(rest, id)
		}
	}
	e.refused[cacheNode] = rest
}

// union returns the entries of both maps. An entry of the second map replaces the entry of the first.
func union[K comparable, V any](first, second map[K]V) map[K]V {
	both := make(map[K]V, len(first)+len(second))
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// isReported returns true if a pass has reported what the pods of a CacheNode serve.
func (e *GatewayExchange) isReported(cacheNode types.NamespacedName) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	_, known := e.listening[cacheNode]
	return known
}

// forget removes the values of a CacheNode that does not exist.
func (e *GatewayExchange) forget(cacheNode types.NamespacedName) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.tables, cacheNode)
	delete(e.listening, cacheNode)
	delete(e.refused, cacheNode)
	delete(e.given, cacheNode)
}
