package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestParents checks that a pass changes only the entries that belong to its fleet, and those of Gateways that are
// gone.
func TestParents(t *testing.T) {
	t.Parallel()
	ref := func(name gw.ObjectName) gw.ParentReference { return gw.ParentReference{Name: name} }
	entry := func(of gw.ObjectName, controller gw.GatewayController) gw.RouteParentStatus {
		return gw.RouteParentStatus{ParentRef: ref(of), ControllerName: controller}
	}
	const own, other = gateways.Controller, gw.GatewayController("example.com/other")
	route := &gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
	for _, name := range []gw.ObjectName{"own", "elsewhere", "gone", "foreign"} {
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, ref(name))
	}
	route.Status.Parents = []gw.RouteParentStatus{
		entry("own", own), entry("elsewhere", own), entry("gone", own), entry("not-named", own), entry("foreign", other),
	}
	state := gateways.State{Elsewhere: map[types.NamespacedName]bool{
		{Namespace: "team", Name: "elsewhere"}: true, {Namespace: "team", Name: "not-named"}: true,
	}}
	got := parents(state, route, []gw.RouteParentStatus{entry("own", own)})
	want := []gw.RouteParentStatus{entry("elsewhere", own), entry("foreign", other), entry("own", own)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := parents(state, &gw.HTTPRoute{}, nil); got == nil {
		t.Error("the list is null, which the API server refuses")
	}
}

// TestFollow checks that a condition keeps the time of its last transition while its status stays the same.
func TestFollow(t *testing.T) {
	t.Parallel()
	early, late := metav1.Unix(1, 0), metav1.Unix(2, 0)
	had := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: early},
		{Type: "Other", Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: early},
		{Type: "Gone", Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: early},
	}
	got := follow(had, []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "B", LastTransitionTime: late},
		{Type: "Other", Status: metav1.ConditionFalse, Reason: "B", LastTransitionTime: late},
		{Type: "New", Status: metav1.ConditionTrue, Reason: "B", LastTransitionTime: late},
	})
	want := []metav1.Condition{
		{Type: "Same", Status: metav1.ConditionTrue, Reason: "B", LastTransitionTime: early},
		{Type: "Other", Status: metav1.ConditionFalse, Reason: "B", LastTransitionTime: late},
		{Type: "New", Status: metav1.ConditionTrue, Reason: "B", LastTransitionTime: late},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestListensOn checks which tables count as served: those of the revisions that ready pods run, and that of the
// candidate.
func TestListensOn(t *testing.T) {
	t.Parallel()
	revision := func(id string, ports ...int32) *agentapi.Revision {
		r := &agentapi.Revision{ID: id}
		for _, port := range ports {
			r.Routes.Listeners = append(r.Routes.Listeners, routes.Listener{
				Gateway: "team/shop", Port: port, PodPort: 20000 + port,
			})
		}
		return r
	}
	older, newer := revision("old", 80), revision("new", 80, 81)
	running := func(of ...*agentapi.Revision) map[string]routes.Table {
		tables := map[string]routes.Table{}
		for _, r := range of {
			tables[r.ID] = r.Routes
		}
		return tables
	}
	pod := func(name string, isReady bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if isReady {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	for name, tt := range map[string]struct {
		runs           map[string]string // the revision of each pod
		unready        string
		running        map[string]routes.Table
		unknown, whole bool
	}{
		"all run the candidate":   {map[string]string{"a": "new", "b": "new"}, "", running(newer), false, true},
		"one runs the candidate":  {map[string]string{"a": "new", "b": "old"}, "", running(older, newer), false, true},
		"an old pod, not ready":   {map[string]string{"a": "new", "b": "old"}, "b", running(newer), false, true},
		"none runs the candidate": {map[string]string{"a": "old", "b": "old"}, "", running(older, newer), false, true},
		"no pod is ready":         {map[string]string{"a": "old"}, "a", running(), false, true},
		"an unknown revision":     {map[string]string{"a": "new", "b": "older"}, "", running(newer), true, false},
		"unknown, not ready":      {map[string]string{"a": "new", "b": "older"}, "b", running(newer), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observed{offered: offered{stable: older, candidate: newer}}
			o.agents.byPod = map[string]agents.Observation{}
			for name, id := range tt.runs {
				o.pods = append(o.pods, pod(name, name != tt.unready))
				o.agents.byPod[name] = agents.Observation{Report: agentapi.Report{Revision: id}}
			}
			got, whole := o.listensOn()
			if diff := cmp.Diff(tt.running, got.running); diff != "" || whole != tt.whole || got.unknown != tt.unknown {
				t.Errorf("whole: %t, want %t; unknown: %t, want %t; running (-want +got)\n%s",
					whole, tt.whole, got.unknown, tt.unknown, diff)
			}
			if len(got.held) != 2 {
				t.Errorf("held ports are %v", got.held)
			}
		})
	}
}
