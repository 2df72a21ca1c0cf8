package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// An edit of routes must fail no request, although old and new workers of nginx run side by side for a while:
//
//   - nginx asks for the addresses of an upstream's name only once it runs a configuration with this upstream. Until it
//     uses an answer, it answers requests for the upstream with 502. So an edit that sends requests to a new backend
//     takes two reloads: the first one adds the actions of the next revision to the running configuration, and the
//     second one changes which requests they get.
//   - The requests of an old worker pass through the sockets of new workers, which must know its actions. So a
//     configuration also has the actions of earlier revisions, until their workers have ended.
//   - The requests of a new worker may pass through the sockets of old workers, until these have closed them. So an
//     edit with a new action takes two reloads too, for example an edit of headers or of a policy.

const (
	// namesPatience is the longest time for which the second reload waits for answers, and for which a pod is not ready
	// because nginx has not used answers for all names. namesInterval is the time after which the agent looks again.
	namesPatience = 5 * time.Second
	namesInterval = 100 * time.Millisecond
	// maxFormer is the maximum number of actions of earlier revisions.
	maxFormer = 1024
)

// announced is a revision whose actions nginx got before the revision itself, and the time at which it got them.
type announced struct {
	revision string
	at       time.Time
}

// former are the actions of earlier revisions, each with the time until which an old worker may use it. They are stored
// by ID.
type former map[string]formerAction

type formerAction struct {
	routes.Action
	// rules are the rules of the action's policy; nil if there is none.
	rules *v1alpha1.CacheRules
	until time.Time
}

// add adds the actions that the next revision does not have. If there are too many, those that end first are removed.
func (f former) add(last, next routes.Table, now, until time.Time) {
	maps.DeleteFunc(f, func(_ string, a formerAction) bool { return !now.Before(a.until) })
	for id, a := range last.Actions() {
		f[id] = formerAction{a, last.Rules(a.Policy), until}
	}
	for id := range next.Actions() {
		delete(f, id)
	}
	byEnd := func(a, b string) int { return cmp.Or(f[a].until.Compare(f[b].until), strings.Compare(a, b)) }
	for _, id := range slices.SortedFunc(maps.Keys(f), byEnd)[:max(0, len(f)-maxFormer)] {
		delete(f, id)
	}
}

// beside returns the actions that a configuration with the given routes has in addition: those of earlier revisions
// that still count, and those in more. They are sorted by ID. policies are their policies, by ID.
func (f former) beside(
	table, more routes.Table, now time.Time,
) (actions []routes.Action, policies map[string]v1alpha1.CacheRules) {
	all := more.Actions()
	policies = maps.Clone(more.Policies)
	for id, a := range f {
		if !now.Before(a.until) {
			continue
		}
		all[id] = a.Action
		if a.rules != nil {
			if policies == nil {
				policies = map[string]v1alpha1.CacheRules{}
			}
			policies[a.Policy] = *a.rules
		}
	}
	for id := range table.Actions() {
		delete(all, id)
	}
	byID := func(a, b routes.Action) int { return strings.Compare(a.ID, b.ID) }
	return slices.SortedFunc(maps.Values(all), byID), policies
}

// formerFor returns how long old workers of nginx can use the actions of a revision after nginx took another one.
func formerFor(r agentapi.Revision) time.Duration {
	return effective.Duration(r.Spec.Rollout.WorkerShutdownTimeout) + reloadTime
}

// announce gives nginx the actions of the next revision, if an action or a backend is new; nginx must run another
// revision. It returns how long the reload for the next revision must still wait; 0 if it need not wait.
func (c *conductor) announce(ctx context.Context, next agentapi.Revision) (wait time.Duration) {
	current := c.current()
	names := c.newNames(current.revision, next)
	if len(names) == 0 && !c.hasNewActions(current.revision, next) {
		return 0
	}
	if c.announced.revision == next.ID {
		if c.clock.Since(c.announced.at) >= c.namesPatience || len(c.resolver.Unanswered(names, c.announced.at)) == 0 {
			return 0
		}
		return namesInterval
	}
	facts, err := c.facts(current.revision)
	if err != nil {
		return 0
	}
	made, now := *current, c.clock.Now()
	also, policies := c.former.beside(current.revision.Routes, next.Routes, now)
	made.config, err = cache.Render(cache.Input{
		Revision: current.revision, Facts: facts, Also: also, AlsoPolicies: policies, Coming: next.Spec.Origin.Servers,
	})
	if err != nil {
		return 0
	}
	made.files = c.files(made.config, facts)
	c.announced = announced{next.ID, now}
	c.reloaded, c.memory = now, facts.Memory
	if c.Nginx.Apply(ctx, made.config, made.files) != nil {
		return 0 // nginx will say of the revision itself what is wrong with it
	}
	if c.take(made) != nil {
		return 0
	}
	c.Log.Info("nginx knows the actions of the next revision", "revision", next.ID, "names", len(names))
	return namesInterval
}

// hasNewActions returns true if nginx does not know an action of the next revision. A pod without listeners gets no
// requests for its actions.
func (c *conductor) hasNewActions(current, next agentapi.Revision) bool {
	if len(current.Routes.Listeners) == 0 {
		return false
	}
	known := current.Routes.Actions()
	others, _ := c.former.beside(current.Routes, routes.Table{}, c.clock.Now())
	for _, a := range others {
		known[a.ID] = a
	}
	for id := range next.Routes.Actions() {
		if _, ok := known[id]; !ok {
			return true
		}
	}
	return false
}

// newNames returns the names of servers that only the next revision has, sorted. It leaves out those of sites that do
// not exist yet and so get no requests.
func (c *conductor) newNames(current, next agentapi.Revision) []string {
	known := cache.Names(current)
	others, _ := c.former.beside(current.Routes, routes.Table{}, c.clock.Now())
	for _, a := range others {
		known[a.Backend.Host] = true
	}
	if len(current.Routes.Listeners) == 0 {
		next.Routes = routes.Table{}
	}
	if len(current.Spec.Origin.Servers) == 0 {
		next.Spec.Origin.Servers = nil
	}
	names := cache.Names(next)
	maps.DeleteFunc(names, func(name string, _ bool) bool { return known[name] })
	return slices.Sorted(maps.Keys(names))
}

// knowsNames returns true if nginx has used answers for the names of all servers in its configuration since it was
// started, so that it can send requests to them. A name that cannot be resolved keeps the pod from being ready for
// namesPatience only. If nginx was started before the agent, the agent does not know which answers nginx has, and the
// method returns true.
func (a *Agent) knowsNames() bool {
	processes, runs := a.Nginx.Processes()
	current := a.current()
	if !runs || current == nil {
		return true // the pod is not ready for this reason
	}
	started := processes.Boot.Add(processes.Master)
	a.mutex.Lock()
	began := a.began
	a.mutex.Unlock()
	return started.Before(began) || a.clock.Since(started) >= a.namesPatience ||
		len(a.resolver.Unanswered(slices.Collect(maps.Keys(cache.Names(current.revision))), started)) == 0
}
