package controllers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

func TestFindsPods(t *testing.T) {
	t.Parallel()
	of := func(renderer int) agents.Observation {
		return agents.Observation{Answered: time.Unix(1, 0), Report: agentapi.Report{Renderer: renderer}}
	}
	now, before := of(agentapi.ResolvingRenderer), of(agentapi.ResolvingRenderer-1)
	for name, tt := range map[string]struct {
		agents map[string]agents.Observation
		want   time.Duration
	}{
		"all tell nginx where pods are": {map[string]agents.Observation{"edge-0": now, "edge-1": now}, effective.FindsPods},
		"one does not": {
			map[string]agents.Observation{"edge-0": now, "edge-1": before}, effective.FindsPodsByName,
		},
		"a new pod": {map[string]agents.Observation{"edge-0": now, "edge-1": {}}, effective.FindsPods},
	} {
		if got := findsPods(tt.agents); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestPodAddresses(t *testing.T) {
	t.Parallel()
	of := func(ips ...string) (status corev1.PodStatus) {
		for _, ip := range ips {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
		return status
	}
	ready := func(status corev1.PodStatus) corev1.PodStatus {
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return status
	}
	in := func(status corev1.PodStatus, container string, state corev1.ContainerState) corev1.PodStatus {
		status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: state}}
		return status
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	serves := agents.Observation{Report: agentapi.Report{Revision: "a"}}
	for name, tt := range map[string]struct {
		status  corev1.PodStatus
		agent   agents.Observation
		deleted bool
		want    string
	}{
		"ready":                           {status: ready(of("10.0.0.1")), want: "10.0.0.1"},
		"has both, IPv6 first":            {status: ready(of("fd00::1", "10.0.0.1")), want: "10.0.0.1"},
		"not ready yet":                   {status: of("10.0.0.1")},
		"not ready yet, but nginx serves": {status: of("10.0.0.1"), agent: serves, want: "10.0.0.1"},
		"is being deleted":                {status: ready(of("10.0.0.1")), deleted: true, want: "10.0.0.1"},
		"is being deleted, and has ended": {status: of("10.0.0.1"), deleted: true},
		"its nginx has ended":             {status: in(of("10.0.0.1"), layout.Container, ended), agent: serves},
		"its nginx waits to be restarted": {status: in(of("10.0.0.1"), layout.Container, waiting), agent: serves},
		"its agent waits to be restarted": {
			status: in(of("10.0.0.1"), layout.AgentContainer, waiting), agent: serves, want: "10.0.0.1",
		},
		"has no address":              {status: ready(of())},
		"has only IPv6":               {status: ready(of("fd00::1"))},
		"has an address that is none": {status: ready(of("nowhere"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}, Status: tt.status}
			if tt.deleted {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			stripped, err := stripPod(pod) // as the cache has it
			must(t, err)
			want := map[string]netip.Addr{}
			if tt.want != "" {
				want["edge-0"] = netip.MustParseAddr(tt.want)
			}
			got := podAddresses([]corev1.Pod{*stripped.(*corev1.Pod)}, map[string]agents.Observation{"edge-0": tt.agent})
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
