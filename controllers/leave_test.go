package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agents"
)

// TestMayLeave checks that a removed disk stays in the pods only if the agents of all pods support leaving disks. It
// also checks that mayLeave returns the pods whose agents do not support them.
func TestMayLeave(t *testing.T) {
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	healthy := []agentapi.DiskReport{{Name: "disk2", State: v1alpha1.DiskHealthy}}
	knows := agentapi.Report{Features: []string{agentapi.FeatureLeaving}, Disks: healthy}
	dead := agentapi.Report{
		Features: knows.Features, Disks: []agentapi.DiskReport{{Name: "disk2", State: v1alpha1.DiskFailed}},
	}
	for name, tt := range map[string]struct {
		reports []agentapi.Report
		unknown bool
		want    bool
		old     []string
	}{
		"all know it":            {reports: []agentapi.Report{knows, knows}, want: true},
		"one does not":           {reports: []agentapi.Report{knows, {Disks: healthy}}, old: []string{"edge-1"}},
		"none does":              {reports: []agentapi.Report{{Disks: healthy}, {}}, old: []string{"edge-0", "edge-1"}},
		"no pod reads the disk":  {reports: []agentapi.Report{dead, dead}},
		"one pod reads the disk": {reports: []agentapi.Report{dead, knows}, want: true},
		"not asked yet":          {reports: []agentapi.Report{{}}, unknown: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed{agents: answers{byPod: map[string]agents.Observation{}, unknown: tt.unknown}}
			for i, r := range tt.reports {
				pod := corev1.Pod{Status: ready}
				pod.Name = []string{"edge-0", "edge-1"}[i]
				o.pods = append(o.pods, pod)
				o.agents.byPod[pod.Name] = agents.Observation{Report: r}
			}
			got, old := o.mayLeave("disk2")
			if diff := cmp.Diff(tt.old, old); got != tt.want || diff != "" {
				t.Errorf("got %t, want %t; the old agents (-want +got):\n%s", got, tt.want, diff)
			}
		})
	}
}
