package agents

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
)

// TestTellsAddresses checks when the operator sends the addresses of pods to agents: at once after a change, again
// before they expire, and again after a failure. It must never send them to an agent that is too old to use them.
func TestTellsAddresses(t *testing.T) { synctest.Test(t, testTellsAddresses) }

func testTellsAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := New(clock.RealClock{}, nil)
	const old = "10.0.0.3:8084"
	a.Calls.Report = func(_ context.Context, _ *agentclient.Client, address string) (agentapi.Report, error) {
		if address == old {
			return agentapi.Report{Renderer: agentapi.ResolvingRenderer - 1}, nil
		}
		return agentapi.Report{Renderer: agentapi.ResolvingRenderer}, nil
	}
	var mutex sync.Mutex
	told, failing := map[string][]map[string]netip.Addr{}, map[string]bool{}
	a.Calls.Tell = func(_ context.Context, _ *agentclient.Client, address string, addresses agentapi.Addresses) error {
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
		time.Sleep(after) // on the bubble's clock
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
	expect(time.Minute, map[string][]map[string]netip.Addr{}) // the pods do not share keys yet
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
