package agents

import (
	"context"
	"net"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// share identifies the readers that one CacheNode occupies in one queue. The readers of each queue are counted
// separately, so silent agents do not delay agents that answer.
type share struct {
	answering bool
	cacheNode types.NamespacedName
}

// next reads one agent. It returns false after the queue was shut down.
func (t *Tracker) next(ctx context.Context, pods Queue) bool {
	pod, end := pods.Get()
	if end {
		return false
	}
	defer pods.Done(pod)
	t.mutex.Lock()
	known := t.known[pod]
	var current agent
	if known != nil {
		current = *known
	}
	// If the agent is not read now, Track adds it again, unless the pod is leaving.
	mayRead := known != nil && current.IP != "" && current.client != nil && !current.Leaving && t.queueOf(&current) == pods
	of := share{answering: pods == t.answering, cacheNode: current.cacheNode}
	mayRead = mayRead && t.occupy(of, pod)
	t.mutex.Unlock()
	if !mayRead {
		return true
	}
	defer t.leave(of)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	report, err := t.Calls.Report(ctx, current.client, addressOf(current.IP))
	if err == nil {
		t.tell(ctx, pod, current, report)
	}
	t.note(pod, current.UID, report, err)
	return true
}

// occupy takes a reader for a pod. If no reader is free, it returns false, and the pod waits for one. The caller
// holds the mutex.
func (t *Tracker) occupy(of share, pod types.NamespacedName) bool {
	if t.reading[of] >= readersEach {
		t.waiting[of] = append(t.waiting[of], pod)
		return false
	}
	t.reading[of]++
	return true
}

// leave frees a reader and wakes the next pod that waits. The last reader wakes all waiting pods, because a pod that
// was woken before may have been deleted.
func (t *Tracker) leave(of share) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.reading[of]--
	woken := t.waiting[of][:min(1, len(t.waiting[of]))]
	if t.reading[of] == 0 {
		delete(t.reading, of)
		woken = t.waiting[of]
	}
	if t.waiting[of] = t.waiting[of][len(woken):]; len(t.waiting[of]) == 0 {
		delete(t.waiting, of)
	}
	for _, pod := range woken {
		if known := t.known[pod]; known != nil {
			t.queueOf(known).Add(pod)
		}
	}
}

// note stores the result of a read. A changed result causes a pass over the CacheNode, within the rate limit of the
// agent.
func (t *Tracker) note(pod types.NamespacedName, uid types.UID, report agentapi.Report, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.known[pod]
	if known == nil || known.UID != uid {
		return
	}
	if err == nil {
		t.takeUnsafe(known, report.Unsafe)
		// The progress of purges must not cause a pass over the CacheNode.
		report.Unsafe = nil
		known.Report.Purged, known.Report.PurgeHead = report.Purged, report.PurgeHead
	}
	now := t.clock.Now()
	changed := err == nil && (known.Answered.IsZero() || !reflect.DeepEqual(known.Report, report))
	news := changed || known.untold || (err == nil) != (known.Err == nil)
	isFree := changed && known.arrives(report)
	known.untold = news && !isFree && !known.news.AllowN(now, 1)
	known.Err = err
	if err != nil {
		known.heard = heard{} // the agent may have been restarted when it answers again
		t.others.AddRateLimited(pod)
	} else {
		if changed && !known.untold { // otherwise a later read finds the change again
			known.Report = report
		}
		known.Answered = now
		t.others.Forget(pod)
		interval := calmInterval
		if known.hurry {
			interval = hurriedInterval
		}
		t.answering.AddAfter(pod, interval)
	}
	if news && !known.untold && t.reconcile != nil {
		t.reconcile.Add(reconcile.Request{NamespacedName: known.cacheNode})
	}
}

// arrives returns true for the first report with the revision that the operator waits for.
func (a *agent) arrives(report agentapi.Report) bool {
	arrived := a.isAwaited && report.Revision == a.awaited
	a.isAwaited = a.isAwaited && !arrived
	return arrived
}

// addressOf returns the address at which the agent of a pod listens.
func addressOf(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(layout.AgentPort)) }
