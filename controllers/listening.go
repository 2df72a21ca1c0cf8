package controllers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// trial is a candidate, and the time since which the pods try it.
type trial struct {
	candidate string
	since     time.Time
}

// next returns the trial after a pass that has found a candidate, or none.
func (t trial) next(candidate string, now time.Time) trial {
	if candidate == t.candidate {
		return t
	}
	return trial{candidate, now}
}

// longestTrial is the time for which edits of routes wait for a candidate, in addition to rollout.canary.seconds. An
// agent may pause before a reload; see package reload.
const longestTrial = 45 * time.Second

// waits returns how long edits of routes wait for the candidate. Without this, a team that edits its routes all the
// time would replace each candidate before all pods have it.
func (t trial) waits(candidate string, canary time.Duration, now time.Time) time.Duration {
	if candidate != t.candidate {
		return longestTrial + canary
	}
	return max(0, longestTrial+canary-now.Sub(t.since))
}

// routes returns the routes that the pods are to serve. While the pods try a candidate, these are the routes of the
// candidate: later edits come with the next one. Until the first pass of [GatewayReconciler], these are the routes that
// the pods already have. They also keep them if the operator can no longer read the Gateway API.
func (r *CacheNodeReconciler) routes(s scope, o observed, out *outcome) routes.Table {
	if s.cacheNode.Spec.Gateways == nil {
		return routes.Table{}
	}
	var table routes.Table
	known := false
	if r.Exchange != nil {
		table, known = r.Exchange.table(client.ObjectKeyFromObject(s.cacheNode))
	}
	if newest := cmp.Or(o.offered.candidate, o.offered.stable); !known && newest != nil {
		return newest.Routes
	}
	if c := o.offered.candidate; c != nil {
		canary := time.Duration(ptr.Deref(s.cacheNode.Spec.Rollout.Canary.Seconds, 0)) * time.Second
		if left := s.last.trial.waits(c.ID, canary, s.now); left > 0 {
			out.lookAgain(left)
			return c.Routes
		}
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

// tellRefused reports to [GatewayReconciler] which routes have made nginx refuse the wanted revision. The
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
	if o.offered.stable == nil {
		return
	}
	changed := w.target.Revision.Routes.Changed(o.offered.stable.Routes)
	for _, id := range refusal.Routes {
		if slices.Contains(changed, id) { // a compromised pod may name routes that the pods serve already
			r.Exchange.addRefused(client.ObjectKeyFromObject(s.cacheNode), id, w.target.Revision.Routes.Fingerprint(id),
				refusal.Message, o.offered.stable.Routes)
		}
	}
}

// hasPolicies returns true if pods follow policies already. These policies stay: without them, a pod could store
// responses that they keep from being stored. An agent that does not know them keeps its present configuration.
func (o observed) hasPolicies() bool {
	return o.offered.stable != nil && len(o.offered.stable.Routes.Policies) > 0
}

// listensOn returns what the pods serve for Gateways, according to the revisions that they run. whole is false if a pod
// runs a revision that the ConfigMap no longer contains.
func (o observed) listensOn() (now listening, whole bool) {
	now, whole = listening{
		running: map[string]routes.Table{}, held: gateways.Held{}, certificates: map[string]bool{},
	}, true
	tables := map[string]routes.Table{}
	for _, revision := range []*agentapi.Revision{o.offered.stable, o.offered.candidate} {
		if revision == nil {
			continue
		}
		tables[revision.ID] = revision.Routes
		maps.Copy(now.certificates, certificatesOf(revision.Routes))
		now.held.Add(portsOf(revision.Routes))
	}
	for i := range o.pods {
		pod := &o.pods[i]
		report := o.agents.byPod[pod.Name].Report
		revision := report.Revision
		if len(report.Features) > 0 && !slices.Contains(report.Features, agentapi.FeaturePolicies) && !o.hasPolicies() {
			now.ignoresPolicies = true
		}
		running, known := tables[revision]
		whole = whole && known
		switch isReady := storage.IsReady(pod) && pod.DeletionTimestamp.IsZero(); {
		case isReady && known:
			now.running[revision] = running
		case isReady:
			now.unknown = true
		}
	}
	if c := o.offered.candidate; c != nil && len(now.running) > 0 {
		now.running[c.ID] = c.Routes // a pod may take it at any time, even if the routes have changed since
	}
	return now, whole
}
