package gateways

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

const gateway gw.Kind = "Gateway"

// target is what a policy applies to: a Gateway or a route, or a listener or a rule of it. section is "" for the whole
// object.
type target struct {
	kind    gw.Kind
	object  types.NamespacedName
	section gw.SectionName
}

// targetsOf returns the targets of a policy.
func targetsOf(p *v1alpha1.CachePolicy) (list []target) {
	for _, ref := range p.Spec.TargetRefs {
		list = append(list, target{
			ref.Kind, types.NamespacedName{Namespace: p.Namespace, Name: string(ref.Name)}, ptr.Deref(ref.SectionName, ""),
		})
	}
	return list
}

// readPolicies finds the policy for each target. If several policies have the same target, the oldest one counts
// (GEP-713).
func (d *decision) readPolicies() {
	d.Policies = slices.SortedFunc(slices.Values(d.Policies), func(a, b v1alpha1.CachePolicy) int { return byAge(&a, &b) })
	for i := range d.Policies {
		p := &d.Policies[i]
		d.rules[routes.PolicyID(p.Spec.CacheRules)] = p.Spec.CacheRules
		for _, t := range targetsOf(p) {
			if d.policies[t] == nil {
				d.policies[t] = p
			}
		}
	}
}

// policyOf returns the ID of the policy for a section of an object: the policy of the section, or of the whole object.
// It returns "" if there is none.
func (d *decision) policyOf(kind gw.Kind, object types.NamespacedName, section gw.SectionName) (id string) {
	if d.IgnoresPolicies {
		return ""
	}
	for _, t := range []target{{kind, object, section}, {kind, object, ""}} {
		if p := d.policies[t]; p != nil {
			return routes.PolicyID(p.Spec.CacheRules)
		}
	}
	return ""
}

// keepPolicies adds to the table the policies that its rules and listeners use.
func (d *decision) keepPolicies() {
	t := &d.result.Table
	for _, use := range t.Uses() {
		if use.Policy == "" {
			continue
		}
		if t.Policies == nil {
			t.Policies = map[string]v1alpha1.CacheRules{}
		}
		t.Policies[use.Policy] = d.rules[use.Policy]
	}
}

// policyVariables returns the number of variables that nginx has for a policy.
func policyVariables(r v1alpha1.CacheRules) (count int) {
	const windows, query, bypass, ttl, ignored = 4, 17, 2, 3, 6
	count = windows + ignored*len(r.Ignore)
	if r.Query != nil {
		count += query
	}
	if r.Bypass != nil {
		count += bypass
	}
	if len(r.TTL) > 0 {
		count += ttl
	}
	return count
}

// policyRows returns the number of rows with regular expressions that nginx has for a policy.
func policyRows(r v1alpha1.CacheRules) int {
	const query, bypass, entry, bound, ignored = 3, 1, 7, 8, 2
	count := ignored*len(r.Ignore) + query + bypass
	for _, t := range r.TTL {
		if t.Force == nil {
			count += entry
		}
		if t.Min != nil || t.Max != nil {
			count += bound
		}
	}
	return count
}

// reportPolicies writes the statuses of the policies.
func (d *decision) reportPolicies() {
	d.result.Policies = map[types.NamespacedName][]gw.PolicyAncestorStatus{}
	missing := d.Running.missing(d.result.Table)
	for i := range d.Policies {
		p := &d.Policies[i]
		d.result.Policies[nameOf(p)] = d.ancestors(p, missing)
	}
}

// ancestors returns the status of a policy for each Gateway of the fleet that it affects, and for each target that does
// not exist.
func (d *decision) ancestors(p *v1alpha1.CachePolicy, missing map[string]bool) (list []gw.PolicyAncestorStatus) {
	for _, t := range targetsOf(p) {
		for _, e := range d.effects(p, t) {
			at := slices.IndexFunc(list, func(s gw.PolicyAncestorStatus) bool { return sameRef(s.AncestorRef, e.ancestor) })
			if at < 0 {
				at = len(list)
				list = append(list, gw.PolicyAncestorStatus{AncestorRef: e.ancestor, ControllerName: Controller})
			}
			list[at].Conditions = combined(list[at].Conditions, d.policyConditions(p, e, missing))
		}
	}
	return list
}

// effect is what a target of a policy means for a Gateway of the fleet.
type effect struct {
	// ancestor refers to the Gateway, or to a target that does not exist.
	ancestor gw.ParentReference
	// refused is the reason why the policy does not apply; nil if it does.
	refused *problem
	// routes are the routes whose requests may follow the policy, and invalid is the reason why the pods do not serve the
	// last version of one of them; nil if there is none.
	routes  []string
	invalid *problem
}

// effects returns what a target of a policy means for each Gateway of the fleet.
func (d *decision) effects(p *v1alpha1.CachePolicy, t target) []effect {
	if t.kind == gateway {
		return d.effectsOnGateway(p, t)
	}
	at := slices.IndexFunc(d.HTTPRoutes, func(r gw.HTTPRoute) bool { return nameOf(&r) == t.object })
	if at < 0 {
		return []effect{{ancestor: refTo(t.kind, t.object), refused: notFound(t)}}
	}
	var list []effect
	for _, a := range d.attached {
		if nameOf(a.of) != t.object {
			continue
		}
		refused := d.conflict(p, t)
		hasRule := func(r gw.HTTPRouteRule) bool { return ptr.Deref(r.Name, "") == t.section }
		if t.section != "" && !slices.ContainsFunc(a.of.Spec.Rules, hasRule) {
			refused = problemf(gw.PolicyReasonTargetNotFound, "HTTPRoute %s has no rule with the name %s", t.object, t.section)
		}
		for _, parent := range a.parents {
			name, _ := parentOf(parent.ref, a.of.Namespace)
			e := effect{ancestor: refTo(gateway, name), refused: refused, routes: []string{t.object.String()}}
			if firstOf(parent.refused, a.refused) != nil || a.fellBack || !parent.serves {
				e.invalid = problemf(gw.PolicyReasonInvalid, "see the conditions of HTTPRoute %s", t.object)
			}
			list = append(list, e)
		}
	}
	return list
}

// effectsOnGateway returns what a target means that is a Gateway or one of its listeners.
func (d *decision) effectsOnGateway(p *v1alpha1.CachePolicy, t target) []effect {
	listeners, isOwn := d.listeners[t.object]
	switch {
	case d.Elsewhere[t.object] || d.Foreign[t.object]:
		return nil
	case !isOwn:
		return []effect{{ancestor: refTo(t.kind, t.object), refused: notFound(t)}}
	}
	e := effect{ancestor: refTo(t.kind, t.object), refused: d.conflict(p, t)}
	found := t.section == ""
	for _, l := range listeners {
		if t.section == "" || l.Name == t.section {
			found = true
			for _, a := range l.attached {
				e.routes = append(e.routes, a.Route)
			}
		}
	}
	if !found {
		e.refused = problemf(gw.PolicyReasonTargetNotFound, "Gateway %s has no listener with the name %s",
			t.object, t.section)
	}
	if excluded := d.excluded[t.object]; excluded != nil {
		e.refused = problemf(gw.PolicyReasonInvalid, "Gateway %s is not accepted: %s", t.object, excluded.message)
	}
	return []effect{e}
}

func notFound(t target) *problem {
	return problemf(gw.PolicyReasonTargetNotFound, "%s %s does not exist", t.kind, t.object)
}

// conflict returns the problem of a policy whose target has an older policy; nil if there is none.
func (d *decision) conflict(p *v1alpha1.CachePolicy, t target) *problem {
	if first := d.policies[t]; first != p {
		section := ""
		if t.section != "" {
			section = ", " + string(t.section)
		}
		return problemf(gw.PolicyReasonConflicted,
			"CachePolicy %s is older and has the same target: %s %s%s", nameOf(first), t.kind, t.object, section)
	}
	return nil
}

// policyConditions returns the conditions of a policy for an effect.
func (d *decision) policyConditions(
	p *v1alpha1.CachePolicy, e effect, missing map[string]bool,
) (conditions []metav1.Condition) {
	accepted := unless(e.refused, gw.PolicyConditionAccepted, gw.PolicyReasonAccepted, p.Generation)
	unserved := e.invalid
	switch isMissing := slices.ContainsFunc(e.routes, func(id string) bool { return missing[id] }); {
	case e.refused != nil:
		unserved = problemf(gw.PolicyReasonInvalid, "the policy is not accepted")
	case unserved == nil && d.IgnoresPolicies:
		unserved = problemf(gw.RouteReasonPending,
			"the agent of a pod does not know policies: see the condition Outdated of CacheNode %s", d.Fleet)
	case unserved == nil && (isMissing || d.Running.Unknown):
		unserved = problemf(gw.RouteReasonPending, "not all ready pods follow this version of the policy yet")
	}
	programmed := unless(unserved, RouteConditionProgrammed, "Programmed", p.Generation)
	var had []metav1.Condition
	for _, s := range p.Status.Ancestors {
		if s.ControllerName == Controller && sameRef(s.AncestorRef, e.ancestor) {
			had = s.Conditions
		}
	}
	return []metav1.Condition{accepted, d.Running.follow(had, programmed)}
}

// combined returns the conditions for several effects on one Gateway. A condition that is false takes precedence, with
// the messages of all effects for which it is false.
func combined(before, more []metav1.Condition) []metav1.Condition {
	if before == nil {
		return more
	}
	for i, c := range more {
		switch b := &before[i]; {
		case c.Status == metav1.ConditionTrue || strings.Contains(b.Message, c.Message):
		case b.Status == metav1.ConditionTrue:
			*b = c
		default:
			b.Message += "; " + c.Message
		}
	}
	return before
}

// refTo returns a reference to an object of the Gateway API.
func refTo(kind gw.Kind, object types.NamespacedName) gw.ParentReference {
	return gw.ParentReference{
		Group: ptr.To(gw.Group(gw.GroupName)), Kind: new(kind), Namespace: new(gw.Namespace(object.Namespace)),
		Name: gw.ObjectName(object.Name),
	}
}

// sameRef returns true if two references to whole objects have the same kind and name.
func sameRef(a, b gw.ParentReference) bool {
	return ptr.Deref(a.Kind, gateway) == ptr.Deref(b.Kind, gateway) && a.Name == b.Name &&
		ptr.Deref(a.Namespace, "") == ptr.Deref(b.Namespace, "")
}
