package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// TestAgents has 200 agents that never answer and one that does: the one is read all the same, by no more goroutines than
// there are readers, and its news reach the controller's queue.
func TestAgents(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := NewAgents()
	var under, most, revision atomic.Int64
	a.read = func(ctx context.Context, _ *agentapi.Client, address string) (agentapi.Report, error) {
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if address != "10.0.0.1:8084" {
			<-ctx.Done()
			return agentapi.Report{}, errors.New("no answer")
		}
		return agentapi.Report{Revision: fmt.Sprint(revision.Load())}, nil
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := a.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	c := &agentapi.Client{}
	good, bad := types.NamespacedName{Name: "good"}, types.NamespacedName{Name: "bad"}
	target := func(name, ip string) Target {
		return Target{Pod: types.NamespacedName{Name: name}, UID: types.UID(name), IP: ip}
	}
	wait := func(want string, within time.Duration) {
		t.Helper()
		for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
			if got := a.Track(good, c, []Target{target("good-0", "10.0.0.1")})["good-0"].Report.Revision; got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the good agent is not read within %s", within)
			}
		}
	}
	wait("0", 10*time.Second)
	a.Hurry(good, true)
	var silent []Target
	for i := range 200 {
		silent = append(silent, target(fmt.Sprintf("bad-%d", i), "10.0.1.1"))
	}
	a.Track(bad, c, silent)
	time.Sleep(100 * time.Millisecond) // all readers of such agents wait by now
	revision.Store(1)
	wait("1", 2*time.Second)
	if got := most.Load(); got < readers || got > 2*readers {
		t.Errorf("%d agents were read at once, want %d to %d", got, readers, 2*readers)
	}
	if request, _ := queue.Get(); request.Name != "good" {
		t.Errorf("the first news are of %q", request.Name)
	}
	silence := Observation{Err: errors.New("no answer"), Tracked: time.Now().Add(-time.Minute)}
	if !silence.isSilent(time.Now()) || (Observation{Tracked: time.Now().Add(-time.Minute)}).isSilent(time.Now()) {
		t.Error("an agent is silent when it was asked and has not answered, and only then")
	}
	a.Forget(good)
	if got := a.Track(good, c, nil); len(got) != 0 {
		t.Errorf("what is forgotten is known: %v", got)
	}
}
