package controllers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

const (
	// sendTimeout limits a request to an agent; passPatience is how long a pass waits for all agents. An agent that
	// answers later causes another pass.
	sendTimeout  = 5 * time.Second
	passPatience = 300 * time.Millisecond
	// sendBytes is how many bytes of updates are sent at a time, so that an operator that starts needs little memory.
	sendBytes = 16 << 20
)

// agentState is what an agent has done of the journal.
type agentState struct {
	done purge.Done
	// isKnown is true once the agent has answered; sending while a request is under way.
	isKnown, sending bool
	// stale are URLs for the next update.
	stale []string
	// raised is when the agent said that it had applied more than before.
	raised time.Time
	// tried is when the last request ended, and confirmed when the last one began that was answered.
	tried, confirmed time.Time
	problem          string
}

// confirmedFor is how long an agent's answer counts when rules are given an end.
const confirmedFor = 2 * time.Second

// send sends the agents what they do not know, all at once, and waits for their answers for a moment. If all is true,
// it also asks the others whether they still obey what they know.
func (r *PurgeReconciler) send(ctx context.Context, p *purging, j *journal, all bool) {
	sends := r.updates(p, j, r.client(ctx, p.cacheNode), all)
	if len(sends) == 0 {
		return
	}
	done := make(chan struct{})
	r.errands.start(ctx, func(ctx context.Context) {
		defer close(done)
		var sending sync.WaitGroup
		defer sending.Wait()
		for _, send := range sends {
			sending.Go(func() { send(ctx) })
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-r.Clock.After(passPatience):
		r.errands.start(ctx, func(ctx context.Context) { r.passAfter(ctx, done, p.cacheNode, j) })
	}
}

// updates returns what sends the agents what they do not know. It counts those agents as under way.
func (r *PurgeReconciler) updates(
	p *purging, j *journal, c *agentclient.Client, all bool,
) (sends []func(context.Context)) {
	observations := r.Agents.Observations(client.ObjectKeyFromObject(p.cacheNode))
	now := r.Clock.Now()
	current := map[types.UID]bool{}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.forgetCounts(p.now)
	if j.agents == nil {
		j.agents = map[types.UID]*agentState{}
	}
	for i := range p.pods {
		pod := &p.pods[i]
		current[pod.UID] = true
		state := j.agents[pod.UID]
		if state == nil {
			state = &agentState{problem: "its agent has not answered yet"}
			j.agents[pod.UID] = state
		}
		if seen := observations[pod.Name]; seen.Answered.After(state.tried) && seen.Report.Purged < state.done.Applied {
			state.isKnown = false // the agent was restarted
		}
		state.stale = newest(append(state.stale, p.unsafe...))
		if c == nil || !state.needsUpdate(j.log.Head, all, now) {
			continue
		}
		state.sending, state.tried = true, now
		update := state.update(j.log.Journal)
		sends = append(sends, func(ctx context.Context) {
			r.sendOne(ctx, p.cacheNode, j, state, c, pod.Status.PodIP, update)
		})
	}
	maps.DeleteFunc(j.agents, func(uid types.UID, _ *agentState) bool { return !current[uid] })
	p.unsafe = nil
	return sends
}

// forgetCounts forgets what agents count for rules that ended a minute ago or earlier: their counts are in the
// statuses. The caller holds the mutex.
func (j *journal) forgetCounts(now time.Time) {
	open := map[int64]bool{}
	for _, r := range j.log.Rules {
		if r.Until.IsZero() || now.Sub(r.Until) < time.Minute {
			open[r.Number] = true
		}
	}
	for _, state := range j.agents {
		for _, s := range state.done.Stores {
			maps.DeleteFunc(s.Counts, func(number int64, _ purge.Count) bool { return !open[number] })
		}
	}
}

// passAfter causes a pass over a CacheNode once an agent has answered whose pass has ended, as often as agents may.
func (r *PurgeReconciler) passAfter(
	ctx context.Context, answered <-chan struct{}, cacheNode *v1alpha1.CacheNode, j *journal,
) {
	select {
	case <-answered:
	case <-ctx.Done():
		return
	}
	if !j.late.AllowN(r.Clock.Now(), 1) {
		return // a pass is due anyway while an agent is behind
	}
	select {
	case r.late <- event.TypedGenericEvent[*v1alpha1.CacheNode]{Object: cacheNode}:
	case <-ctx.Done():
	}
}

// needsUpdate returns true for an agent that does not obey the journal yet, unless it failed to answer just now. If all
// is true, it is also true for one that has not confirmed lately that it does.
func (s *agentState) needsUpdate(head int64, all bool, now time.Time) bool {
	switch {
	case s.sending || (s.problem != "" && now.Sub(s.tried) < behindInterval):
		return false
	case len(s.stale) > 0:
		return true
	case s.isKnown && s.done.Applied >= head:
		return all && now.Sub(s.confirmed) >= confirmedFor/2
	}
	return true
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

// hasStale returns true if an agent has not got the URLs that it is to make stale.
func (j *journal) hasStale() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, state := range j.agents {
		if len(state.stale) > 0 {
			return true
		}
	}
	return false
}

// update returns what the agent does not know of a journal.
func (s *agentState) update(j purge.Journal) purge.Update {
	update := purge.Update{Floor: j.Floor, Head: j.Head, Stale: s.stale}
	s.stale = nil
	if s.isKnown && s.done.Head >= j.Floor {
		update.After = min(s.done.Head, j.Head)
	}
	update.Rules = j.Since(update.After)
	return update
}

// sendOne sends an update to one agent, as an errand.
func (r *PurgeReconciler) sendOne(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, j *journal, state *agentState, c *agentclient.Client, ip string,
	update purge.Update,
) {
	waits, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	size := min(int64(purge.Journal{Rules: update.Rules}.Size()), sendBytes)
	if r.sending.Acquire(waits, size) != nil { // the others take too long
		size = 0
	}
	defer r.sending.Release(size)
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	begun := r.Clock.Now()
	done, err := r.Agents.Purge(ctx, c, ip, update)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	state.sending, state.tried = false, r.Clock.Now()
	if err != nil { // what it has done until now stays done as far as is known
		state.problem = "its agent: " + err.Error()
		state.stale = newest(append(update.Stale, state.stale...))
		log.FromContext(ctx).V(1).Info("sending purges", "cacheNode", cacheNode.Name, "address", ip, "error", err.Error())
		return
	}
	if !state.isKnown || done.Applied > state.done.Applied {
		state.raised = state.tried
	}
	state.done, state.isKnown, state.problem, state.confirmed = done.With(state.done), true, "", begun
	if done.Head < update.After { // the agent has lost what it knew
		state.isKnown = false
	}
}

// client returns the client for the agents of a CacheNode; nil if there are no certificates yet.
func (r *PurgeReconciler) client(ctx context.Context, cacheNode *v1alpha1.CacheNode) *agentclient.Client {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: cacheNode.Namespace, Name: naming.AgentSecret(cacheNode.Name)}
	if err := r.Get(ctx, name, secret); err != nil {
		return nil
	}
	return r.Agents.Client(client.ObjectKeyFromObject(cacheNode), secret)
}

// progress returns what the pods have done. Pods whose nginx has not begun do not count: they read the journal first.
func (j *journal) progress(p *purging) (pods []purge.Pod) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range p.pods {
		pod := &p.pods[i]
		state := j.agents[pod.UID]
		if state == nil || !isInitialized(pod) {
			continue
		}
		one := purge.Pod{Name: pod.Name, Problem: state.problem, IsUnknown: !state.isKnown}
		if state.isKnown {
			one.Done, one.Answered = state.done, state.raised
		}
		pods = append(pods, one)
	}
	return pods
}

// isConfirmed returns true if all pods that count have said right now what they have done.
func (j *journal) isConfirmed(p *purging) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range p.pods {
		pod := &p.pods[i]
		state := j.agents[pod.UID]
		if isInitialized(pod) && (state == nil || p.now.Sub(state.confirmed) > confirmedFor) {
			return false
		}
	}
	return true
}

// isBehind returns true if an agent has something to apply, or was not reached.
func (j *journal) isBehind(p *purging) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range p.pods {
		state := j.agents[p.pods[i].UID]
		if state == nil || !state.isKnown || state.problem != "" || state.done.Applied < j.log.Head {
			return true
		}
	}
	return false
}

// isInitialized returns true for a pod whose nginx has begun, or is about to.
func isInitialized(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if (c.Type == corev1.PodInitialized || c.Type == corev1.PodReady) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
