package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// sharing returns the facts of a CacheNode with three ready pods. The spec asks for only two, so the last pod hands its
// keys over.
func sharing() Facts {
	f := Facts{
		CacheNode: &v1alpha1.CacheNode{}, StatefulSet: statefulSet(1, 1, 3, 3, 3, 3),
		Rollout: &Rollout{Done: true, Settled: true},
		Sharing: &fleet.Decision{
			State: fleet.State{
				Fleet: fleet.Fleet{Owners: fleet.Of(2).Owners, Previous: fleet.Of(3).Owners},
				Until: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
			}, Keep: 3,
		},
	}
	f.CacheNode.Name, f.CacheNode.Spec.Replicas = "edge", new(int32(2))
	for _, name := range []string{"edge-0", "edge-1", "edge-2"} {
		pod := &corev1.Pod{}
		pod.Name = name
		pod.Annotations = map[string]string{naming.AnnotationPeers: "Mutual"}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		f.Pods = append(f.Pods, Pod{Pod: pod, Report: &agentapi.Report{Features: []string{agentapi.FeatureRouting}}})
	}
	f.Sharing.State.Serial = 5
	f.Pods[0].Report.FleetSerial, f.Pods[1].Report.FleetSerial, f.Pods[2].Report.FleetSerial = 5, 5, 4
	return f
}

// TestRouting checks that the status shows which pods own keys. It also checks the messages about a pod that hands its
// keys over and about a pod on a cordoned node.
func TestRouting(t *testing.T) {
	atRest := sharing()
	atRest.CacheNode.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse},
	}
	status := Of(atRest)
	if r := status.Routing; r == nil || r.Owners != 2 || r.HandoverUntil == nil || r.Applied != "2/3" {
		t.Errorf("status.routing is %+v", r)
	}
	var shares, messages []string
	for _, p := range status.Pods {
		shares, messages = append(shares, p.Share), append(messages, p.Message)
	}
	if diff := cmp.Diff([]string{"50.00%", "50.00%", "0.00%"}, shares); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	want := []string{"", "", "it hands its keys over until 2026-11-24T12:00:00Z, and is then removed"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	checkReady(t, status, metav1.ConditionTrue, "2 of 2 pods are ready and run what the spec asks for; "+
		"removed after their keys are handed over: edge-2")

	f := sharing()
	f.Sharing.Keep, f.Sharing.State.Away = 0, []int{1}
	status = Of(f)
	if got := status.Pods[1].Message; !strings.HasPrefix(got, "other pods have its keys, and fill them from it until ") {
		t.Errorf("the message of a pod on a cordoned node is %q", got)
	}
	f.Sharing = nil
	if status = Of(f); status.Routing != nil || status.Pods[0].Share != "" {
		t.Errorf("with mode Local: %+v, %+v", status.Routing, status.Pods[0])
	}
}

// checkReady checks the condition Ready. It also checks that pods that the spec no longer asks for are not counted.
func checkReady(t *testing.T, status v1alpha1.CacheNodeStatus, is metav1.ConditionStatus, message string) {
	t.Helper()
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if c.Status != is || c.Message != message || status.ReadyOfReplicas != "2/2" {
		t.Errorf("%s pods are ready; Ready is %s: %q, want %s: %q", status.ReadyOfReplicas, c.Status, c.Message, is, message)
	}
}

// TestScaledAway checks the status after the hand-over, while the pod that the spec no longer asks for is removed.
func TestScaledAway(t *testing.T) {
	t.Parallel()
	f := sharing()
	f.Sharing.Keep, f.Sharing.State.Previous, f.Sharing.State.Until = 0, fleet.Owners{}, time.Time{}
	f.StatefulSet = statefulSet(2, 1, 2, 3, 3, 3) // the StatefulSet controller has not seen the smaller number yet
	f.Config = &Config{Revision: "abc"}
	for _, p := range f.Pods {
		p.Report.Revision, p.Report.FleetSerial = "abc", 5
	}
	status := Of(f)
	checkReady(t, status, metav1.ConditionFalse,
		"revision abc: 2 of 2 pods run it, 2 are ready; being removed: edge-2")
	if got := status.Pods[2].Message; got != "it is to be removed" {
		t.Errorf("of edge-2, the status says %q", got)
	}
}

// TestReadyWaitsForOwners checks that a rollout is not complete until all pods know the owners of the keys. A later
// change of the owners is not a rollout, so the CacheNode stays ready.
func TestReadyWaitsForOwners(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		progressing metav1.ConditionStatus
		change      func(*Facts)
		want        metav1.ConditionStatus
	}{
		"a pod does not know them": {metav1.ConditionTrue, func(*Facts) {}, metav1.ConditionFalse},
		"all know them": {
			metav1.ConditionTrue, func(f *Facts) { f.Pods[2].Report.FleetSerial = 5 }, metav1.ConditionTrue,
		},
		"its agent knows no owners": {
			metav1.ConditionTrue, func(f *Facts) { f.Pods[2].Report.Features = nil }, metav1.ConditionTrue,
		},
		"its agent does not answer": {
			metav1.ConditionTrue, func(f *Facts) { f.Pods[2].Silent = true }, metav1.ConditionTrue,
		},
		"the owners changed at rest": {metav1.ConditionFalse, func(*Facts) {}, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sharing()
			f.CacheNode.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionProgressing, Status: tt.progressing},
			}
			tt.change(&f)
			if c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionReady); c.Status != tt.want {
				t.Errorf("Ready is %s (%s), want %s", c.Status, c.Message, tt.want)
			}
		})
	}
}

// TestAgentTooOld checks that Degraded names the pods whose agents are too old to share keys, and the remedy.
func TestAgentTooOld(t *testing.T) {
	f := sharing()
	f.Pods[1].Report.Features = nil
	degraded := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionDegraded)
	others := func(p string) bool { return strings.Contains(degraded.Message, p) }
	if degraded.Reason != v1alpha1.ReasonAgentTooOld || !strings.Contains(degraded.Message, "edge-1 ") ||
		slices.ContainsFunc([]string{"edge-0", "edge-2"}, others) {
		t.Errorf("Degraded is %+v", degraded)
	}
}
