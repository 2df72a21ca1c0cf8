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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// TestTellsAddresses checks that agents are told where the pods are: at once when that changes, again before it is no
// longer valid, again after a failure, and never an agent that does not take it.
func TestTellsAddresses(t *testing.T) { synctest.Test(t, testTellsAddresses) }

func testTellsAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := NewAgents()
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

func TestPodAddresses(t *testing.T) {
	t.Parallel()
	initialized := []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	of := func(ips ...string) corev1.PodStatus {
		status := corev1.PodStatus{Conditions: initialized}
		for _, ip := range ips {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
		return status
	}
	starting, begins := of("10.0.0.1"), of("10.0.0.1")
	starting.Conditions = nil
	begins.ContainerStatuses = []corev1.ContainerStatus{{Name: layout.Container, State: waiting}}
	agentWaits := of("10.0.0.1")
	agentWaits.ContainerStatuses = []corev1.ContainerStatus{{Name: layout.AgentContainer, State: waiting}}
	for name, tt := range map[string]struct {
		status  corev1.PodStatus
		deleted bool
		want    string
	}{
		"runs":                        {status: of("10.0.0.1"), want: "10.0.0.1"},
		"has both, IPv6 first":        {status: of("fd00::1", "10.0.0.1"), want: "10.0.0.1"},
		"is being deleted":            {status: of("10.0.0.1"), deleted: true, want: "10.0.0.1"},
		"has no address":              {status: of()},
		"has only IPv6":               {status: of("fd00::1")},
		"has an address that is none": {status: of("nowhere")},
		"its agent has not begun":     {status: starting},
		"its nginx has not begun":     {status: begins},
		"its agent is started again":  {status: agentWaits, want: "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}, Status: tt.status}
			if tt.deleted {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			want := map[string]netip.Addr{}
			if tt.want != "" {
				want["edge-0"] = netip.MustParseAddr(tt.want)
			}
			if diff := cmp.Diff(want, podAddresses([]corev1.Pod{pod}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
