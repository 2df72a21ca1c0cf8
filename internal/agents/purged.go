package agents

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// NotAnswered is the problem of an agent until the first update sent to it has been answered or has failed. It is also
// the problem of a pod that the Tracker does not know yet.
const NotAnswered = "its agent has not answered yet"

// purged records how far an agent has carried out the journal of purges.
type purged struct {
	// done is the agent's last answer: how far the agent has carried out the journal.
	done purge.Done
	// isKnown is true while done is known to describe the present state of the agent. isSending is true while a request
	// is under way.
	isKnown, isSending bool
	// told is the number of the newest of the [changes] that was sent to the agent, or that the present request sends. For
	// a new agent, it is at first the number of the newest change at the time when the Tracker began to track the agent.
	told int64
	// raised is the time at which the agent last reported that it had applied more than before.
	raised time.Time
	// tried is the time at which the last request ended or, while a request is under way, at which it began. confirmed
	// is the time at which the last answered request began.
	tried, confirmed time.Time
	// problem says why the last request failed, or is NotAnswered; "" if the last request succeeded.
	problem string
}

// Purged returns how far the agents of a CacheNode's pods have carried out the journal, by the UID of the pod.
func (t *Tracker) Purged(cacheNode types.NamespacedName) map[types.UID]purge.Pod {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	pods, last := map[types.UID]purge.Pod{}, t.changesOf(cacheNode).last
	for pod := range t.pods[cacheNode] {
		known := t.known[pod]
		pods[known.UID] = known.purged.pod(pod.Name, last)
	}
	return pods
}

// pod returns what is known about the agent of a pod. last is the highest number in the [changes].
func (p purged) pod(name string, last int64) purge.Pod {
	pod := purge.Pod{
		Name: name, Problem: p.problem, IsUnknown: !p.isKnown, Confirmed: p.confirmed, HasStale: p.told < last,
	}
	if p.isKnown {
		pod.Done, pod.Answered = p.done, p.raised
	}
	return pod
}

// forgetCounts removes the agent's counts for rules that are not in open. It replaces the maps and does not change
// them, because another goroutine may be reading the old ones.
func (p *purged) forgetCounts(open map[int64]bool) {
	isClosed := func(number int64, _ purge.Count) bool { return !open[number] }
	p.done.Stores = slices.Clone(p.done.Stores)
	for i := range p.done.Stores {
		counts := maps.Clone(p.done.Stores[i].Counts)
		maps.DeleteFunc(counts, isClosed)
		if len(counts) < len(p.done.Stores[i].Counts) {
			p.done.Stores[i].Counts = counts
		}
	}
}

// counted returns the numbers of the rules whose counts are kept. Counts of a rule that ended a minute ago or earlier
// are not kept, because the statuses already contain them.
func counted(rules []purge.Rule, now time.Time) map[int64]bool {
	open := map[int64]bool{}
	for _, r := range rules {
		if r.Until.IsZero() || now.Sub(r.Until) < time.Minute {
			open[r.Number] = true
		}
	}
	return open
}

// needs returns true for an agent that does not obey the journal up to head yet, or that lacks some of the [changes]
// up to last. It returns false while a request is under way, and for a moment after a failed request. If confirm is
// true, it also returns true for an agent that has not confirmed lately that it still obeys.
func (p purged) needs(head, last int64, confirm bool, now time.Time) bool {
	switch {
	case p.isSending || (p.problem != "" && now.Sub(p.tried) < purge.RetryInterval):
		return false
	case p.told < last:
		return true
	case p.isKnown && p.done.Applied >= head:
		return confirm && now.Sub(p.confirmed) >= purge.ConfirmedFor/2
	}
	return true
}

// update returns what the agent does not know yet: the rules of the journal that are newer than the agent's, and the
// URLs in [changes] that it did not get. These URLs then count as sent.
func (p *purged) update(j purge.Journal, c *changes) purge.Update {
	update := purge.Update{Floor: j.Floor, Head: j.Head, Stale: c.since(p.told)}
	p.told = c.last
	if p.isKnown && p.done.Head >= j.Floor {
		update.After = min(p.done.Head, j.Head)
	}
	update.Rules = j.Since(update.After)
	return update
}

// failed notes that the agent did not answer an update. told is the number of the last change that the agent had before
// the update. The progress that the agent reported earlier stays valid.
func (p *purged) failed(err error, told int64, now time.Time) {
	p.isSending, p.tried, p.told = false, now, told
	p.problem = "its agent: " + err.Error()
}

// answered notes the answer to an update that was sent at the time begun.
func (p *purged) answered(update purge.Update, done purge.Done, begun, now time.Time) {
	p.isSending, p.tried = false, now
	if !p.isKnown || done.Applied > p.done.Applied {
		p.raised = p.tried
	}
	p.done, p.problem, p.confirmed = done.With(p.done), "", begun
	p.isKnown = done.Head >= update.After // otherwise the agent has lost what it knew
}
