package gateways

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// Problem is a problem of a Gateway, an HTTPRoute or a CachePolicy that the owner of the object must solve.
type Problem struct {
	// Kind and Object identify the object.
	Kind   string
	Object types.NamespacedName
	// Text contains the part of the object, the reason and the message.
	Text string
	// Ignored is true if a field has no effect, and the object is served all the same.
	Ignored bool
}

// Problems returns the problems in the statuses, sorted by kind and name. It leaves out what the pods have yet to do.
func (r Result) Problems() (problems []Problem) {
	for _, name := range slices.SortedFunc(maps.Keys(r.Gateways), compareNames) {
		g := r.Gateways[name]
		problems = append(problems, problemsOf("Gateway", name, "", g.Conditions)...)
		for _, l := range g.Listeners {
			problems = append(problems, problemsOf("Gateway", name, fmt.Sprintf("listener %s: ", l.Name), l.Conditions)...)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.Parents), compareNames) {
		for _, p := range r.Parents[name] {
			at := fmt.Sprintf("parent %s: ", p.ParentRef.Name)
			problems = append(problems, problemsOf(string(httpRoute), name, at, p.Conditions)...)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.Policies), compareNames) {
		for _, a := range r.Policies[name] {
			at := fmt.Sprintf("%s %s: ", *a.AncestorRef.Kind, a.AncestorRef.Name)
			problems = append(problems, problemsOf("CachePolicy", name, at, a.Conditions)...)
		}
	}
	return slices.Compact(problems) // a conflict is in two conditions of a listener
}

// problemsOf returns the problems in the conditions of an object, or of a part of it.
func problemsOf(kind string, object types.NamespacedName, part string, of []metav1.Condition) (problems []Problem) {
	for _, c := range of {
		isBad := c.Status == metav1.ConditionFalse
		switch c.Type {
		case string(gw.GatewayConditionProgrammed), string(RouteConditionProgrammed):
			continue
		case string(gw.ListenerConditionConflicted), string(gw.RouteConditionPartiallyInvalid),
			string(GatewayConditionIgnored):
			isBad = c.Status == metav1.ConditionTrue
		}
		if isBad {
			problems = append(problems, Problem{
				kind, object, fmt.Sprintf("%s%s: %s", part, c.Reason, c.Message), c.Type == string(GatewayConditionIgnored),
			})
		}
	}
	return problems
}

func compareNames(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
