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

// purged is what is known of an agent and the journal of purges.
type purged struct {
	// done is what the agent said last that it has done.
	done purge.Done
	// isKnown is true while the agent is known to have what done says; isSending while a request is under way.
	isKnown, isSending bool
	// stale are URLs for the next update.
	stale []string
	// raised is when the agent said that it had applied more than before.
	raised time.Time
	// tried is when the last request ended, and confirmed when the last one began that was answered.
	tried, confirmed time.Time
	// problem is why the last request failed, or NotAnswered; "" if it did not.
	problem string
}

// Purged returns what the agents of pods have done of the journal, by the UID of the pod.
func (t *Tracker) Purged(cacheNode types.NamespacedName) map[types.UID]purge.Pod {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	pods := map[types.UID]purge.Pod{}
	for pod := range t.pods[cacheNode] {
		known := t.known[pod]
		pods[known.UID] = known.purged.pod(pod.Name)
	}
	return pods
}

// pod returns what is known of the agent of a pod.
func (p purged) pod(name string) purge.Pod {
	pod := purge.Pod{
		Name: name, Problem: p.problem, IsUnknown: !p.isKnown, Confirmed: p.confirmed, HasStale: len(p.stale) > 0,
	}
	if p.isKnown {
		pod.Done, pod.Answered = p.done, p.raised
	}
	return pod
}

// forgetCounts forgets what the agent counts for rules that ended a minute ago or earlier: their counts are in the
// statuses.
func (p purged) forgetCounts(rules []purge.Rule, now time.Time) {
	open := map[int64]bool{}
	for _, r := range rules {
		if r.Until.IsZero() || now.Sub(r.Until) < time.Minute {
			open[r.Number] = true
		}
	}
	for _, s := range p.done.Stores {
		maps.DeleteFunc(s.Counts, func(number int64, _ purge.Count) bool { return !open[number] })
	}
}

// needs returns true for an agent that does not obey the journal yet, unless it failed to answer just now. If confirm is
// true, it is also true for one that has not confirmed lately that it does.
func (p purged) needs(head int64, confirm bool, now time.Time) bool {
	switch {
	case p.isSending || (p.problem != "" && now.Sub(p.tried) < purge.RetryInterval):
		return false
	case len(p.stale) > 0:
		return true
	case p.isKnown && p.done.Applied >= head:
		return confirm && now.Sub(p.confirmed) >= purge.ConfirmedFor/2
	}
	return true
}

// update returns what the agent does not know of a journal, and takes the URLs.
func (p *purged) update(j purge.Journal) purge.Update {
	update := purge.Update{Floor: j.Floor, Head: j.Head, Stale: p.stale}
	p.stale = nil
	if p.isKnown && p.done.Head >= j.Floor {
		update.After = min(p.done.Head, j.Head)
	}
	update.Rules = j.Since(update.After)
	return update
}

// addStale adds URLs for the next update.
func (p *purged) addStale(urls []string) { p.stale = newest(append(p.stale, urls...)) }

// answered notes the answer to an update that was sent at a time, or why there is none.
func (p *purged) answered(update purge.Update, done purge.Done, err error, begun, now time.Time) {
	p.isSending, p.tried = false, now
	if err != nil { // what it has done until now stays done as far as is known
		p.problem = "its agent: " + err.Error()
		p.stale = newest(append(update.Stale, p.stale...))
		return
	}
	if !p.isKnown || done.Applied > p.done.Applied {
		p.raised = p.tried
	}
	p.done, p.problem, p.confirmed = done.With(p.done), "", begun
	p.isKnown = done.Head >= update.After // otherwise the agent has lost what it knew
}

// newest returns URLs without repetitions, and not more than an update may have.
func newest(urls []string) (list []string) {
	for i, url := range urls {
		if !slices.Contains(urls[i+1:], url) {
			list = append(list, url)
		}
	}
	return list[max(len(list)-purge.MaxItems, 0):]
}
