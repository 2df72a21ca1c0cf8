package agents

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

const (
	// sendTimeout is the time limit of a request to an agent. passPatience is the time for which a pass waits for the
	// answers of all agents. An agent that answers later causes another pass.
	sendTimeout  = 5 * time.Second
	passPatience = 300 * time.Millisecond
	// sendBytes is the maximum size of the updates that are sent at the same time, in bytes. It limits the memory that
	// an operator needs when it starts.
	sendBytes = 16 << 20
	// lateBurst is the number of passes that late answers of a CacheNode's agents may cause at once. An answer is late
	// if it arrives after the end of the pass. One more pass is allowed every [purge.RetryInterval].
	lateBurst = 20
)

// Errands returns the Runnable that the manager must run. It runs the requests to agents that outlive the pass that
// sends them.
func (t *Tracker) Errands() manager.Runnable { return t.errands }

// OnPurges sets the function that is called when a pass over the purges of a CacheNode has something to do. This is the
// case in three situations: an agent has answered after the pass stopped waiting, an agent is new, or an agent has
// reported URLs at which clients have changed something. The function must neither call the Tracker nor wait.
func (t *Tracker) OnPurges(call func(cacheNode types.NamespacedName)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.onPurges = call
}

// Purge sends each agent of a CacheNode the part of a journal that the agent does not know. It sends to all agents at
// the same time, and waits for their answers for a moment. If confirm is true, it also asks the other agents whether
// they still obey the journal.
func (t *Tracker) Purge(ctx context.Context, cacheNode types.NamespacedName, journal purge.Journal, confirm bool) {
	sends := t.sends(cacheNode, journal, confirm)
	if len(sends) == 0 {
		return
	}
	done := make(chan struct{})
	t.errands.start(ctx, func(ctx context.Context) {
		defer close(done)
		var sending sync.WaitGroup
		defer sending.Wait()
		for _, s := range sends {
			sending.Go(func() { t.send(ctx, s) })
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-t.clock.After(passPatience):
		t.errands.start(ctx, func(ctx context.Context) {
			select {
			case <-done:
				t.wake(cacheNode)
			case <-ctx.Done():
			}
		})
	}
}

// wake causes another pass over purges after an agent has answered too late for the last pass, unless the rate limit
// for late answers forbids it. The limit does no harm, because another pass is due anyway while an agent is behind.
func (t *Tracker) wake(cacheNode types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if len(t.pods[cacheNode]) == 0 {
		return
	}
	limit := t.late[cacheNode]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(purge.RetryInterval), lateBurst)
		t.late[cacheNode] = limit
	}
	if t.onPurges != nil && limit.AllowN(t.clock.Now(), 1) {
		t.onPurges(cacheNode)
	}
}

// sending is an update that is being sent to an agent.
type sending struct {
	to *agent
	// at is a copy of the agent from the time at which the update was made.
	at     agent
	update purge.Update
}

// sends returns the updates to send. It marks the requests to their agents as under way.
func (t *Tracker) sends(cacheNode types.NamespacedName, journal purge.Journal, confirm bool) (list []sending) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now, c := t.clock.Now(), t.changesOf(cacheNode)
	open := counted(journal.Rules, now)
	for pod := range t.pods[cacheNode] {
		known := t.known[pod]
		p := &known.purged
		p.forgetCounts(open)
		if known.Answered.After(p.tried) && known.Report.Purged < p.done.Applied {
			p.isKnown = false // the agent was restarted
		}
		if known.client == nil || known.IP == "" || !p.needs(journal.Head, c.last, confirm, now) {
			continue
		}
		p.isSending, p.tried = true, now
		one := sending{to: known, at: *known}
		one.update = p.update(journal, c)
		list = append(list, one)
	}
	return list
}

// send sends an update to one agent.
func (t *Tracker) send(ctx context.Context, s sending) {
	waits, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	size := min(int64(purge.Journal{Rules: s.update.Rules}.Size()), sendBytes)
	if t.sendable.Acquire(waits, size) != nil { // other requests use up the limit sendBytes for too long
		size = 0
	}
	defer t.sendable.Release(size)
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	begun := t.clock.Now()
	done, err := t.Calls.Purge(ctx, s.at.client, addressOf(s.at.IP), s.update)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err != nil {
		log.FromContext(ctx).V(1).Info("sending purges", "pod", s.at.Pod, "error", err.Error())
		s.to.purged.failed(err, s.at.purged.told, t.clock.Now())
		return
	}
	s.to.purged.answered(s.update, done, begun, t.clock.Now())
}
