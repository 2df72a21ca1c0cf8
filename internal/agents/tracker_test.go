package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
)

// TestTracker checks that an agent that answers is read in time beside 200 agents that never answer. A change in its
// report must reach the controller's queue.
func TestTracker(t *testing.T) { synctest.Test(t, testTracker) }

func testTracker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := New(clock.RealClock{}, nil)
	var under, most, revision atomic.Int64
	a.Calls.Report = func(ctx context.Context, _ *agentclient.Client, address string) (agentapi.Report, error) {
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
	c := &agentclient.Client{}
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
	synctest.Wait() // now the silent agents occupy as many readers as they may
	revision.Store(1)
	wait("1", 2*time.Second)
	if got := most.Load(); got < readersEach || got > readersEach+1 {
		t.Errorf("%d agents were read at once, want the %d that one CacheNode may occupy, and one", got, readersEach)
	}
	if request, _ := queue.Get(); request.Name != "good" {
		t.Errorf("the first news are of %q", request.Name)
	}
	silence := Observation{Err: errors.New("no answer"), Tracked: time.Now().Add(-time.Minute)}
	if !silence.IsSilent(time.Now()) || (Observation{Tracked: time.Now().Add(-time.Minute)}).IsSilent(time.Now()) {
		t.Error("an agent is silent when it was asked and has not answered, and only then")
	}
	a.Forget(good)
	if got := a.Track(good, c, nil); len(got) != 0 {
		t.Errorf("what is forgotten is known: %v", got)
	}
}

// TestHostileAgents checks that slow agents delay only agents of their own CacheNode. It also checks that the number of
// passes is limited if the report of an agent changes all the time.
func TestHostileAgents(t *testing.T) { synctest.Test(t, testHostileAgents) }

func testHostileAgents(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := New(clock.RealClock{}, nil)
	var slow, most, reads atomic.Int64
	a.Calls.Report = func(ctx context.Context, _ *agentclient.Client, address string) (agentapi.Report, error) {
		switch address {
		case "10.0.1.1:8084":
			n := slow.Add(1)
			defer slow.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			select {
			case <-ctx.Done():
			case <-time.After(readTimeout / 2):
			}
			return agentapi.Report{Revision: "a"}, nil
		case "10.0.3.1:8084":
			<-ctx.Done()
			return agentapi.Report{}, errors.New("no answer")
		case "10.0.2.1:8084":
			return agentapi.Report{Revision: fmt.Sprint(reads.Add(1))}, nil
		}
		return agentapi.Report{Revision: "good"}, nil
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := a.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	c := &agentclient.Client{}
	targets := func(name, ip string, n int) []Target {
		var list []Target
		for i := range n {
			pod := fmt.Sprintf("%s-%d", name, i)
			list = append(list, Target{Pod: types.NamespacedName{Name: pod}, UID: types.UID(pod), IP: ip})
		}
		return list
	}
	passes, ended := map[string]int{}, make(chan struct{})
	go func() {
		defer close(ended)
		for {
			request, end := queue.Get()
			if end {
				return
			}
			passes[request.Name]++
			queue.Done(request)
		}
	}()
	crowd := targets("crowd", "10.0.1.1", 100)
	a.Track(types.NamespacedName{Name: "crowd"}, c, crowd)
	synctest.Wait() // now they occupy as many readers as they may
	good := targets("good", "10.0.0.1", 50)
	begun := time.Now()
	for answered := 0; answered < len(good); time.Sleep(10 * time.Millisecond) {
		answered = 0
		for _, seen := range a.Track(types.NamespacedName{Name: "good"}, c, good) {
			if !seen.Answered.IsZero() {
				answered++
			}
		}
		if time.Since(begun) > readTimeout/2 {
			t.Fatalf("%d of %d agents of another CacheNode are read while slow ones are waited for", answered, len(good))
		}
	}
	restless := types.NamespacedName{Name: "restless"}
	a.Track(restless, c, targets("restless", "10.0.2.1", 1))
	for begun := time.Now(); time.Since(begun) < 4*time.Second; time.Sleep(100 * time.Millisecond) {
		a.Hurry(restless, true)
	}
	if got := most.Load(); got != readersEach {
		t.Errorf("%d readers were one CacheNode's, want %d", got, readersEach)
	}
	queue.ShutDown()
	<-ended
	if got := passes["restless"]; reads.Load() < newsBurst+5 || got > newsBurst+1 {
		t.Errorf("%d reports that changed caused %d passes, want at most %d", reads.Load(), got, newsBurst+1)
	}
	// Silent agents do not delay an agent of the same CacheNode that answers.
	fast := append(targets("mixed", "10.0.0.1", 1), targets("silent", "10.0.3.1", 100)...)
	mixed := types.NamespacedName{Name: "mixed"}
	for begun := time.Now(); a.Track(mixed, c, fast)["mixed-0"].Answered.IsZero(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the one that answers is never read")
		}
	}
	a.Hurry(mixed, true)
	time.Sleep(time.Second)
	last := a.Track(mixed, c, fast)["mixed-0"].Answered
	if late := time.Since(last); late > readTimeout/2 {
		t.Errorf("one that answers was read last %s ago, beside silent ones of its CacheNode", late)
	}
	// The waiting agents of the crowd are still read.
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answered := 0
		for _, seen := range a.Track(types.NamespacedName{Name: "crowd"}, c, crowd) {
			if !seen.Answered.IsZero() {
				answered++
			}
		}
		if answered >= 40 {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d of the crowd were read", answered)
		}
	}
}

// TestAwaitedRevisions checks that each revision that the operator waits for is noticed at once, however many there
// are. An agent that reports it and other things in turns must cause few passes.
func TestAwaitedRevisions(t *testing.T) { synctest.Test(t, testAwaitedRevisions) }

func testAwaitedRevisions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := New(clock.RealClock{}, nil)
	var running, reads atomic.Int64
	var flaps atomic.Bool
	a.Calls.Report = func(context.Context, *agentclient.Client, string) (agentapi.Report, error) {
		if n := reads.Add(1); flaps.Load() && n%2 == 0 {
			return agentapi.Report{Revision: "another"}, nil
		}
		return agentapi.Report{Revision: fmt.Sprint(running.Load())}, nil
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := a.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	edge := types.NamespacedName{Name: "edge"}
	pods := []Target{{Pod: types.NamespacedName{Name: "edge-0"}, UID: "a", IP: "10.0.0.1"}}
	see := func() string { return a.Track(edge, &agentclient.Client{}, pods)["edge-0"].Report.Revision }
	see()
	a.Hurry(edge, true)
	for n := int64(1); n < 5*newsBurst; n++ {
		a.Await(edge, fmt.Sprint(n))
		running.Store(n)
		time.Sleep(2 * hurriedInterval) // of the bubble's clock
		synctest.Wait()
		if got := see(); got != fmt.Sprint(n) {
			t.Fatalf("the revision is %s, want %d", got, n)
		}
	}
	passes := func() (n int) {
		for ; queue.Len() > 0; n++ {
			request, _ := queue.Get()
			queue.Done(request)
		}
		return n
	}
	passes()
	flaps.Store(true)
	got := 0
	for range 10 * newsBurst {
		a.Await(edge, fmt.Sprint(running.Load()))
		time.Sleep(hurriedInterval)
		synctest.Wait()
		got += passes()
	}
	if most := newsBurst + int(10*newsBurst*hurriedInterval/newsInterval) + 1; got > most {
		t.Errorf("an agent that flaps caused %d passes, want at most %d", got, most)
	}
}

// TestUnsafeURLsAreBounded checks an agent that names new URLs in each report. The number of passes over purges must be
// limited. URLs that were left out must be taken from a later report.
func TestUnsafeURLsAreBounded(t *testing.T) { synctest.Test(t, testUnsafeURLsAreBounded) }

func testUnsafeURLsAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := New(clock.RealClock{}, nil)
	var number atomic.Int64
	var isCalm atomic.Bool
	a.Calls.Report = func(context.Context, *agentclient.Client, string) (agentapi.Report, error) {
		if !isCalm.Load() {
			number.Add(1)
		}
		var report agentapi.Report
		for n := max(number.Load()-99, 1); n <= number.Load(); n++ {
			url := fmt.Sprintf("http://www.example.com/%d", n)
			report.Unsafe = append(report.Unsafe,
				agentapi.UnsafeURL{Number: n, URL: url}, agentapi.UnsafeURL{Number: n, URL: "none"})
		}
		return report, nil
	}
	var mutex sync.Mutex
	taken, times := map[string]int{}, 0
	edge := types.NamespacedName{Name: "edge"}
	pod := Target{Pod: types.NamespacedName{Name: "edge-0"}, UID: "a", IP: "10.0.0.1"}
	isTracked, told := false, int64(0)
	a.OnPurges(func(types.NamespacedName) { // the caller holds the Tracker's mutex
		mutex.Lock()
		defer mutex.Unlock()
		if !isTracked { // the pod is new
			isTracked = true
			return
		}
		times++
		c := a.changes[edge]
		for _, url := range c.since(told) {
			taken[url]++
		}
		told = c.last
	})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := a.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	a.Track(edge, &agentclient.Client{}, []Target{pod})
	synctest.Wait()
	a.Hurry(edge, true)
	time.Sleep(time.Minute) // of the bubble's clock
	synctest.Wait()
	isCalm.Store(true)
	mutex.Lock()
	if most := newsBurst + int(time.Minute/newsInterval) + 1; times > most {
		t.Errorf("URLs were taken %d times in a minute, want at most %d", times, most)
	}
	mutex.Unlock()
	time.Sleep(2 * newsInterval)
	synctest.Wait()
	mutex.Lock()
	defer mutex.Unlock()
	for n := number.Load() - 50; n <= number.Load(); n++ {
		if url := fmt.Sprintf("http://www.example.com/%d", n); taken[url] != 1 {
			t.Errorf("URL %d of %d was taken %d times", n, number.Load(), taken[url])
		}
	}
	if taken["none"] > 0 {
		t.Error("what is no URL was taken")
	}
}

// TestAPodThatBecomesReadyIsReadAtOnce checks a pod that took long to start. When the pod becomes ready, its agent must
// be read at once, even during the back-off after failed reads.
func TestAPodThatBecomesReadyIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := New(clock.RealClock{}, nil)
		reads := make(chan struct{})
		a.Calls.Report = func(context.Context, *agentclient.Client, string) (agentapi.Report, error) {
			reads <- struct{}{}
			return agentapi.Report{}, errors.New("no answer")
		}
		if err := a.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		name, c := types.NamespacedName{Name: "edge"}, &agentclient.Client{}
		target := Target{Pod: types.NamespacedName{Name: "edge-0"}, UID: "1", IP: "10.0.0.1"}
		a.Track(name, c, []Target{target})
		for range 8 { // after that, the back-off is at its maximum
			<-reads
		}
		synctest.Wait()
		began := time.Now() // the bubble's clock moves only while all goroutines wait
		target.Ready = true
		a.Track(name, c, []Target{target})
		<-reads
		if !time.Now().Equal(began) {
			t.Errorf("the agent is read %s after its pod is ready", time.Since(began))
		}
	})
}
