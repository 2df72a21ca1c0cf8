package agents

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// NotAnswered is the problem of an agent that was not sent anything yet.
const NotAnswered = "its agent has not answered yet"

// purged is how far an agent has carried out the journal of purges.
type purged struct {
	// done is what the agent said last that it has done.
	done purge.Done
	// isKnown is true while the agent is known to have what done says; isSending while a request is under way.
	isKnown, isSending bool
	// told is the number of the last of the [changes] that the agent got, or is being sent.
	told int64
	// raised is when the agent said that it had applied more than before.
	raised time.Time
	// tried is when the last request ended, or when it began while it is under way. confirmed is when the last one began
	// that was answered.
	tried, confirmed time.Time
	// problem is why the last request failed, or NotAnswered; "" if it did not.
	problem string
}

// Purged returns what the agents of pods have done of the journal, by the UID of the pod.
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

// pod returns what is known of the agent of a pod. last is the number of the last of the [changes].
func (p purged) pod(name string, last int64) purge.Pod {
	pod := purge.Pod{
		Name: name, Problem: p.problem, IsUnknown: !p.isKnown, Confirmed: p.confirmed, HasStale: p.told < last,
	}
	if p.isKnown {
		pod.Done, pod.Answered = p.done, p.raised
	}
	return pod
}

// forgetCounts forgets what the agent counts for rules that are not in open. It replaces the counts: those that were
// there may be read meanwhile.
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

// counted returns the numbers of the rules whose counts are kept: of those that ended a minute ago or earlier, the
// statuses have them.
func counted(rules []purge.Rule, now time.Time) map[int64]bool {
	open := map[int64]bool{}
	for _, r := range rules {
		if r.Until.IsZero() || now.Sub(r.Until) < time.Minute {
			open[r.Number] = true
		}
	}
	return open
}

// needs returns true for an agent that does not obey the journal up to head yet, or lacks some of the [changes] up to
// last, unless it failed to answer just now. If confirm is true, it is also true for one that has not confirmed lately
// that it obeys.
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

// update returns what the agent does not know of a journal and of the changes, which then count as told.
func (p *purged) update(j purge.Journal, c *changes) purge.Update {
	update := purge.Update{Floor: j.Floor, Head: j.Head, Stale: c.since(p.told)}
	p.told = c.last
	if p.isKnown && p.done.Head >= j.Floor {
		update.After = min(p.done.Head, j.Head)
	}
	update.Rules = j.Since(update.After)
	return update
}

// failed notes that an update was not answered. told is the number of the last change that the agent had before it.
// What it has done until now stays done as far as is known.
func (p *purged) failed(err error, told int64, now time.Time) {
	p.isSending, p.tried, p.told = false, now, told
	p.problem = "its agent: " + err.Error()
}

// answered notes the answer to an update that was sent at a time.
func (p *purged) answered(update purge.Update, done purge.Done, begun, now time.Time) {
	p.isSending, p.tried = false, now
	if !p.isKnown || done.Applied > p.done.Applied {
		p.raised = p.tried
	}
	p.done, p.problem, p.confirmed = done.With(p.done), "", begun
	p.isKnown = done.Head >= update.After // otherwise the agent has lost what it knew
}
