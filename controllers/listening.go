package controllers

import (
	"cmp"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// routes returns the routes that the pods are to serve. Until the first pass of [GatewayReconciler], these are the
// routes that the pods already have.
func (r *CacheNodeReconciler) routes(s scope, o observed) routes.Table {
	if r.Exchange == nil || s.cacheNode.Spec.Gateways == nil {
		return routes.Table{}
	}
	table, known := r.Exchange.table(client.ObjectKeyFromObject(s.cacheNode))
	if newest := cmp.Or(o.offered.candidate, o.offered.stable); !known && newest != nil {
		return newest.Routes
	}
	return table
}

// tellListening reports to [GatewayReconciler] on which ports the pods listen, unless the agents have yet to answer.
func (r *CacheNodeReconciler) tellListening(s scope, o observed) {
	if r.Exchange == nil || o.agents.unknown {
		return
	}
	now, whole := o.listensOn()
	r.Exchange.setListening(client.ObjectKeyFromObject(s.cacheNode), now, whole)
}

// tellRefused reports to [GatewayReconciler] because of which routes nginx has refused the revision that is wanted. The
// reconciler then leaves these routes at the form that the pods serve, so the next revision has the edits of the
// others.
func (r *CacheNodeReconciler) tellRefused(s scope, o observed, w wanted, done rolled) {
	if r.Exchange == nil || done.rollout == nil {
		return
	}
	refusal := done.rollout.Refused
	if refusal == nil || refusal.Revision != w.target.Revision.ID {
		return
	}
	for _, id := range refusal.Routes {
		var good *routes.Route
		if o.offered.stable != nil {
			good = o.offered.stable.Routes.Route(id)
		}
		r.Exchange.addRefused(client.ObjectKeyFromObject(s.cacheNode),
			id, w.target.Revision.Routes.Fingerprint(id), refusal.Message, good)
	}
}

// listensOn returns the ports on which the pods listen for Gateways, and the certificates that they need, according to
// the revisions that they run. whole is false if a pod runs a revision that the ConfigMap no longer contains.
func (o observed) listensOn() (now listening, whole bool) {
	now, whole = listening{held: map[gateways.Port]int32{}, certificates: map[string]bool{}}, true
	tables := map[string]routes.Table{}
	for _, revision := range []*agentapi.Revision{o.offered.stable, o.offered.candidate} {
		if revision == nil {
			continue
		}
		tables[revision.ID] = revision.Routes
		for _, id := range revision.Routes.Certificates() {
			now.certificates[id] = true
		}
		for _, l := range revision.Routes.Listeners {
			now.held[gateways.Port{Gateway: naming.Split(l.Gateway), Number: l.Port}] = l.PodPort
		}
	}
	for i := range o.pods {
		pod := &o.pods[i]
		running, known := tables[o.agents.byPod[pod.Name].Report.Revision]
		whole = whole && known
		if !storage.IsReady(pod) || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		ports := map[int32]bool{}
		for _, l := range running.Listeners {
			ports[l.PodPort] = true
		}
		if now.served == nil {
			now.served = ports
		}
		maps.DeleteFunc(now.served, func(port int32, _ bool) bool { return !ports[port] })
	}
	return now, whole
}
