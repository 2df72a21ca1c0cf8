package agents

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

var (
	edge     = types.NamespacedName{Namespace: "default", Name: "edge"}
	edge0    = Target{Pod: types.NamespacedName{Namespace: "default", Name: "edge-0"}, UID: "a", IP: "10.0.0.1"}
	leaving1 = Target{
		Pod: types.NamespacedName{Namespace: "default", Name: "edge-1"}, UID: "b", IP: "10.0.0.2", Leaving: true,
	}
	everything = purge.Rule{UID: "a", Target: purge.Target{Everything: true}}
)

// runErrands runs the requests of a Tracker in the background. The function end stops them and waits for their end.
func runErrands(t *testing.T, a *Tracker) (ctx context.Context, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Start(ctx, nil); err != nil { // so that the queues end with ctx
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- a.Errands().Start(ctx) }()
	return ctx, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestLateAnswersAreBounded checks an agent that answers after the end of each pass, and never applies anything. Such
// an agent must cause only a few passes in addition to the passes that are due.
func TestLateAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(clock.RealClock{}, nil)
		a.Calls.Purge = func(context.Context, *agentclient.Client, string, purge.Update) (purge.Done, error) {
			time.Sleep(passPatience + time.Millisecond) // of the bubble's clock
			return purge.Done{}, nil
		}
		ctx, end := runErrands(t, a)
		woken := make(chan struct{}, 1024)
		a.Track(edge, &agentclient.Client{}, []Target{edge0})
		a.OnPurges(func(types.NamespacedName) { woken <- struct{}{} })
		journal := purge.Journal{}
		journal.Add(time.Now(), everything)
		passes := 0
		for stop := time.Now().Add(time.Minute); time.Now().Before(stop); passes++ {
			a.Purge(ctx, edge, journal, false)
			select {
			case <-woken:
			case <-time.After(purge.RetryInterval):
			}
		}
		due := int(time.Minute / purge.RetryInterval)
		if passes < due+lateBurst || passes > 2*due+lateBurst {
			t.Errorf("%d passes in a minute, want %d that are due, and up to %d for late answers", passes, due, due+lateBurst)
		}
		end()
	})
}

// TestPurgeIsSentToAllPods checks that all agents get the part of the journal that they do not know. The agent of a pod
// that is being deleted must get it too, although this agent is no longer read.
func TestPurgeIsSentToAllPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(clock.RealClock{}, nil)
		got := make(chan string, 9)
		a.Calls.Purge = func(
			_ context.Context, _ *agentclient.Client, address string, u purge.Update,
		) (purge.Done, error) {
			got <- address
			return purge.Done{Head: u.Head, Applied: u.Head}, nil
		}
		ctx, end := runErrands(t, a)
		defer end()
		journal := purge.Journal{}
		journal.Add(time.Now(), everything)
		a.Track(edge, nil, []Target{edge0, leaving1}) // without certificates
		a.Purge(ctx, edge, journal, true)
		want := map[types.UID]purge.Pod{
			"a": {Name: "edge-0", Problem: NotAnswered, IsUnknown: true},
			"b": {Name: "edge-1", Problem: NotAnswered, IsUnknown: true},
		}
		if diff := cmp.Diff(want, a.Purged(edge)); diff != "" {
			t.Error(diff)
		}
		seen := a.Track(edge, &agentclient.Client{}, []Target{edge0, leaving1})
		if _, isRead := seen["edge-1"]; isRead || len(seen) != 1 || len(a.Observations(edge)) != 1 {
			t.Errorf("what is read is %v, and %v", seen, a.Observations(edge))
		}
		now := time.Now()
		a.Purge(ctx, edge, journal, false)
		addresses := map[string]bool{<-got: true, <-got: true}
		if !addresses["10.0.0.1:8084"] || !addresses["10.0.0.2:8084"] {
			t.Errorf("it was sent to %v", addresses)
		}
		done := purge.Done{Head: journal.Head, Applied: journal.Head}
		want = map[types.UID]purge.Pod{
			"a": {Name: "edge-0", Done: done, Answered: now, Confirmed: now},
			"b": {Name: "edge-1", Done: done, Answered: now, Confirmed: now},
		}
		if diff := cmp.Diff(want, a.Purged(edge)); diff != "" {
			t.Error(diff)
		}
		a.Purge(ctx, edge, journal, false)
		a.Purge(ctx, edge, journal, true) // they have confirmed it just now
		if len(got) > 0 {
			t.Errorf("it was sent again, %d times", len(got))
		}
		time.Sleep(purge.ConfirmedFor) // of the bubble's clock
		a.Purge(ctx, edge, journal, true)
		if len(got) != 2 {
			t.Errorf("%d agents were asked whether they still obey, want 2", len(got))
		}
	})
}

// TestPurged follows what the Tracker knows about an agent through answers, failures and a restart.
func TestPurged(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	journal, c := purge.Journal{}, &changes{}
	first := journal.Add(now, everything)
	p := purged{problem: NotAnswered}
	c.add([]string{"a", "b", "a"})
	needs := func(confirm bool, at time.Time) bool { return p.needs(journal.Head, c.last, confirm, at) }
	if !needs(false, now) {
		t.Error("a new agent gets nothing")
	}
	p.isSending = true
	if needs(true, now) {
		t.Error("two requests to an agent at a time")
	}
	update := p.update(journal, c)
	want := purge.Update{Head: journal.Head, Rules: []purge.Rule{first}, Stale: []string{"a", "b"}}
	if diff := cmp.Diff(want, update); diff != "" {
		t.Error(diff)
	}
	c.add([]string{"a", "c"})
	p.failed(errors.New("lost"), 0, now)
	if needs(false, now) || !needs(false, now.Add(purge.RetryInterval)) {
		t.Error("an agent that did not answer is not tried after a moment, and only then")
	}
	if update = p.update(journal, c); !cmp.Equal([]string{"b", "a", "c"}, update.Stale) {
		t.Errorf("after an update that was lost, the URLs are %v", update.Stale)
	}
	p.answered(update, purge.Done{Head: first.Number, Applied: first.Number}, now, now)
	if needs(false, now) || needs(true, now) {
		t.Error("an agent that obeys gets something")
	}
	second := journal.Add(now, everything)
	if update = p.update(journal, c); update.After != first.Number || len(update.Rules) != 1 ||
		update.Rules[0].Number != second.Number || update.Stale != nil {
		t.Errorf("the next update is %+v", update)
	}
	p.answered(update, purge.Done{}, now, now) // the agent has lost its journal
	if update = p.update(journal, c); p.isKnown || update.After != 0 || len(update.Rules) != 2 {
		t.Errorf("an agent that has lost what it knew gets %+v", update)
	}
}

// TestChangesAreBounded checks that only the newest URLs are kept, and no more than an update may contain.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	c := &changes{}
	for i := range 3 * purge.MaxItems {
		c.add([]string{fmt.Sprint(i), "always"})
	}
	urls := c.since(0)
	want := []string{fmt.Sprint(3*purge.MaxItems - 1), "always"}
	if len(urls) != purge.MaxItems || !cmp.Equal(want, urls[len(urls)-2:]) {
		t.Errorf("%d URLs, the last are %v", len(urls), urls[len(urls)-2:])
	}
	if later := c.since(c.last - 2); len(later) != 2 {
		t.Errorf("after the third last number, there are %v", later)
	}
}

// TestCountsAreForgotten checks that the counts of rules that have ended are removed. The counts that a pass has
// already received must not change.
func TestCountsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	counts := map[int64]purge.Count{1: {Files: 1}, 2: {Files: 2}, 3: {Files: 3}}
	p := purged{isKnown: true, done: purge.Done{Stores: []purge.StoreDone{{Name: "disk1", Counts: counts}}}}
	seen := p.pod("edge-0", 0)
	p.forgetCounts(counted([]purge.Rule{
		{Number: 1, Until: now.Add(-time.Minute)}, {Number: 2, Until: now.Add(-time.Second)}, {Number: 3},
	}, now))
	if kept := p.done.Stores[0].Counts; len(kept) != 2 || kept[1] != (purge.Count{}) {
		t.Errorf("the counts are %v", kept)
	}
	if len(seen.Done.Stores[0].Counts) != 3 {
		t.Errorf("a pass that has got the counts now has %v", seen.Done.Stores[0].Counts)
	}
}

// TestAPodOfAnotherCacheNode checks a pod that moves to another CacheNode because its labels change. The pod must
// belong only to the new CacheNode, even after the Tracker forgets the old one. Nothing must be known about the pod's
// agent at first.
func TestAPodOfAnotherCacheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(clock.RealClock{}, nil)
		_, end := runErrands(t, a)
		defer end()
		other := types.NamespacedName{Namespace: "default", Name: "other"}
		a.OnPurges(func(types.NamespacedName) {})
		a.Track(edge, nil, []Target{edge0})
		a.known[edge0.Pod].purged.isKnown = true
		a.Track(other, nil, []Target{edge0})
		a.Forget(edge)
		if pods := a.Purged(other); !pods["a"].IsUnknown || len(a.Purged(edge)) > 0 {
			t.Errorf("the pods are %v, and of the one before %v", pods, a.Purged(edge))
		}
		a.mutex.Lock()
		a.takeUnsafe(a.known[edge0.Pod], []agentapi.UnsafeURL{{Number: 1, URL: "http://www.example.com/a"}})
		a.mutex.Unlock()
		if pods := a.Purged(other); !pods["a"].HasStale {
			t.Errorf("a URL is not kept for %v", pods)
		}
		a.wake(edge)
		if len(a.late) > 0 {
			t.Error("a CacheNode that is forgotten leaves something")
		}
	})
}
