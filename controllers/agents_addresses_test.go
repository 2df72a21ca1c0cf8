package controllers

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// TestTellsAddresses checks when the operator sends agents the addresses of pods: at once after a change, again before
// they are no longer valid, again after a failure, and never to an agent that does not know them.
func TestTellsAddresses(t *testing.T) { synctest.Test(t, testTellsAddresses) }

func testTellsAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := NewAgents(clock.RealClock{})
	const old = "10.0.0.3:8084"
	a.read = func(_ context.Context, _ *agentclient.Client, address string) (agentapi.Report, error) {
		if address == old {
			return agentapi.Report{Renderer: agentapi.ResolvingRenderer - 1}, nil
		}
		return agentapi.Report{Renderer: agentapi.ResolvingRenderer}, nil
	}
	var mutex sync.Mutex
	told, failing := map[string][]map[string]netip.Addr{}, map[string]bool{}
	a.inform = func(_ context.Context, _ *agentclient.Client, address string, addresses agentapi.Addresses) error {
		mutex.Lock()
		defer mutex.Unlock()
		if failing[address] {
			return errors.New("no answer")
		}
		told[address] = append(told[address], addresses.Pods)
		return nil
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := a.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	edge := types.NamespacedName{Name: "edge"}
	var targets []Target
	for pod, ip := range map[string]string{"edge-0": "10.0.0.1", "edge-1": "10.0.0.2", "edge-2": "10.0.0.3"} {
		targets = append(targets, Target{Pod: types.NamespacedName{Name: pod}, UID: types.UID(pod), IP: ip})
	}
	a.Track(edge, &agentclient.Client{}, targets)
	pods := func(second string) map[string]netip.Addr {
		return map[string]netip.Addr{"edge-0": netip.MustParseAddr("10.0.0.1"), "edge-1": netip.MustParseAddr(second)}
	}
	expect := func(after time.Duration, want map[string][]map[string]netip.Addr) {
		t.Helper()
		time.Sleep(after) // of the bubble
		synctest.Wait()
		mutex.Lock()
		defer mutex.Unlock()
		if diff := cmp.Diff(want, told, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		clear(told)
	}
	const first, second = "10.0.0.1:8084", "10.0.0.2:8084"
	both := func(p ...map[string]netip.Addr) map[string][]map[string]netip.Addr {
		return map[string][]map[string]netip.Addr{first: p, second: p}
	}
	expect(time.Minute, map[string][]map[string]netip.Addr{}) // they do not share keys
	a.Locate(edge, pods("10.0.0.2"))
	expect(0, both(pods("10.0.0.2")))
	a.Locate(edge, pods("10.0.0.2"))
	expect(0, map[string][]map[string]netip.Addr{})
	expect(agentapi.AddressesValid/2, both(pods("10.0.0.2")))
	a.Locate(edge, pods("10.0.0.9"))
	expect(0, both(pods("10.0.0.9")))
	mutex.Lock()
	failing[second] = true
	mutex.Unlock()
	a.Locate(edge, pods("10.0.0.2"))
	expect(0, map[string][]map[string]netip.Addr{first: {pods("10.0.0.2")}})
	mutex.Lock()
	failing[second] = false
	mutex.Unlock()
	expect(calmInterval, map[string][]map[string]netip.Addr{second: {pods("10.0.0.2")}})
	a.Locate(edge, nil)
	expect(time.Minute, map[string][]map[string]netip.Addr{})
}

func TestFindsPods(t *testing.T) {
	t.Parallel()
	of := func(renderer int) Observation {
		return Observation{Answered: time.Unix(1, 0), Report: agentapi.Report{Renderer: renderer}}
	}
	now, before := of(agentapi.ResolvingRenderer), of(agentapi.ResolvingRenderer-1)
	for name, tt := range map[string]struct {
		agents map[string]Observation
		want   time.Duration
	}{
		"all tell nginx where pods are": {map[string]Observation{"edge-0": now, "edge-1": now}, effective.FindsPods},
		"one does not":                  {map[string]Observation{"edge-0": now, "edge-1": before}, effective.FindsPodsByName},
		"a new pod":                     {map[string]Observation{"edge-0": now, "edge-1": {}}, effective.FindsPods},
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
	serves := Observation{Report: agentapi.Report{Revision: "a"}}
	for name, tt := range map[string]struct {
		status  corev1.PodStatus
		agent   Observation
		deleted bool
		want    string
	}{
		"ready":                           {status: ready(of("10.0.0.1")), want: "10.0.0.1"},
		"has both, IPv6 first":            {status: ready(of("fd00::1", "10.0.0.1")), want: "10.0.0.1"},
		"not ready yet":                   {status: of("10.0.0.1")},
		"not ready yet, but nginx serves": {status: of("10.0.0.1"), agent: serves, want: "10.0.0.1"},
		"is being deleted":                {status: of("10.0.0.1"), agent: serves, deleted: true, want: "10.0.0.1"},
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
			got := podAddresses([]corev1.Pod{*stripped.(*corev1.Pod)}, map[string]Observation{"edge-0": tt.agent})
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
