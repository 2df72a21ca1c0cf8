package gateways

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// RouteConditionProgrammed is true for a route that all ready pods serve as it is now. The Gateway API has such a
// condition only for Gateways and listeners, so the name has a prefix.
const RouteConditionProgrammed gw.RouteConditionType = "cachenode.io/Programmed"

// Running contains what the ready pods serve.
type Running struct {
	// Tables are the tables that ready pods serve, or may take at any time, each once. It is empty if no pod is ready.
	Tables []routes.Table
	// Unknown is true if nobody knows which table one of the ready pods serves. It may have missed several revisions.
	Unknown bool
}

// doors returns the listeners that all ready pods serve.
func (r Running) doors() map[routes.Door]bool {
	var all map[routes.Door]bool
	for i, t := range r.Tables {
		doors := map[routes.Door]bool{}
		for _, l := range t.Listeners {
			doors[l.Door()] = true
		}
		if i == 0 {
			all = doors
		}
		maps.DeleteFunc(all, func(d routes.Door, _ bool) bool { return !doors[d] })
	}
	return all
}

// missing returns the IDs of the routes of a table that not all ready pods serve in the same form.
func (r Running) missing(table routes.Table) map[string]bool {
	ids := map[string]bool{}
	if len(r.Tables) == 0 {
		r.Tables = []routes.Table{{}}
	}
	for _, t := range r.Tables {
		for _, id := range table.Changed(t) {
			ids[id] = true
		}
	}
	return ids
}

// follow returns a condition about what the pods serve. had are the conditions before. If it is not known what a pod
// serves, a condition that would become Pending stays as it was.
func (r Running) follow(had []metav1.Condition, now metav1.Condition) metav1.Condition {
	if before := meta.FindStatusCondition(had, now.Type); r.Unknown && before != nil &&
		now.Reason == string(gw.RouteReasonPending) {
		return *before
	}
	return now
}

// reportRoutes writes the statuses of the routes.
func (d *decision) reportRoutes() {
	missing := d.Running.missing(d.result.Table)
	for _, a := range d.attached {
		var statuses []gw.RouteParentStatus
		for _, p := range a.parents {
			status := gw.RouteParentStatus{
				ParentRef: p.ref, ControllerName: Controller,
				Conditions: a.conditions(firstOf(p.refused, a.refused), a.of.Generation),
			}
			programmed := unless(a.unserved(p, missing[nameOf(a.of).String()] || d.Running.Unknown),
				RouteConditionProgrammed, "Programmed", a.of.Generation)
			status.Conditions = append(status.Conditions, d.Running.follow(conditionsOfParent(a.of, p.ref), programmed))
			statuses = append(statuses, status)
		}
		d.result.Parents[nameOf(a.of)] = statuses
	}
}

// unserved returns the reason why the pods do not serve the last version of a route for a parent; nil if they do.
func (a attached) unserved(p parent, isMissing bool) *problem {
	switch {
	case firstOf(p.refused, a.refused) != nil:
		return problemf(gw.ListenerReasonInvalid, "see the other conditions")
	case a.fellBack:
		return problemf(gw.ListenerReasonInvalid, "the pods serve an older version: see the condition PartiallyInvalid")
	case !p.serves:
		return problemf(gw.ListenerReasonInvalid, "no listener of the parent is served: see its conditions")
	case isMissing:
		return problemf(gw.RouteReasonPending, "not all ready pods serve this version of the route yet")
	}
	return nil
}

// conditionsOfParent returns the conditions in the status of a route for a parent.
func conditionsOfParent(r *gw.HTTPRoute, ref gw.ParentReference) []metav1.Condition {
	for _, s := range r.Status.Parents {
		if s.ControllerName == Controller && equality.Semantic.DeepEqual(s.ParentRef, ref) {
			return s.Conditions
		}
	}
	return nil
}
