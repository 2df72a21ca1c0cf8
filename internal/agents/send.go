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
	// sendTimeout limits a request to an agent; passPatience is how long a pass waits for all agents. An agent that
	// answers later causes another pass.
	sendTimeout  = 5 * time.Second
	passPatience = 300 * time.Millisecond
	// sendBytes is how many bytes of updates are sent at a time, so that an operator that starts needs little memory.
	sendBytes = 16 << 20
	// lateBurst is how many passes the agents of a CacheNode may cause at once by answering after one has ended; one more
	// is due every [purge.RetryInterval].
	lateBurst = 20
)

// Errands returns what the manager is to run: requests to agents that outlive the pass that sends them.
func (t *Tracker) Errands() manager.Runnable { return t.errands }

// OnPurges sets the function that is called when a pass over the purges of a CacheNode has something to do: an agent
// has answered later than the pass waited, is new, or has said URLs at which clients have changed something. It must
// not call the Tracker, or wait.
func (t *Tracker) OnPurges(call func(cacheNode types.NamespacedName)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.onPurges = call
}

// Purge sends the agents of a CacheNode what they do not know of a journal, all at once, and waits for their answers
// for a moment. If confirm is true, it also asks the others whether they still obey what they know.
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

// wake causes a pass over purges once an agent has answered whose pass has ended, as often as agents may. Another pass
// is due anyway while an agent is behind.
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

// sending is an update on its way to an agent.
type sending struct {
	to *agent
	// at is the agent as it was when the update was made.
	at     agent
	update purge.Update
}

// sends returns what is to be sent. It counts those agents as under way.
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
	if t.sendable.Acquire(waits, size) != nil { // the others take too long
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
