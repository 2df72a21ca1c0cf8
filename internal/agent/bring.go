package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/metrics"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// bring renders a revision with the pod's facts and gives it to nginx, if it is not what nginx has. problem is what keeps the
// agent from that, though nginx has not refused the revision.
func (a *Agent) bring(ctx context.Context, revision agentapi.Revision) (again time.Duration, problem error) {
	facts, err := a.facts(revision)
	if err != nil {
		return checkInterval, err
	}
	from := revision.ID + fmt.Sprint(facts)
	if current := a.current(); current != nil && current.madeFrom == from {
		return checkInterval, nil
	}
	// A revision is refused only where another can be gone on with; otherwise its limits are lowered to what the disks hold.
	problems := contradictions(revision, facts)
	if problems != "" && a.hasOther(revision) {
		a.refuse(revision, problems)
		return checkInterval, nil
	}
	a.setLowered(problems)
	config, err := cache.Render(cache.Input{Revision: revision, Facts: facts})
	if err != nil {
		a.refuse(revision, err.Error())
		return checkInterval, nil
	}
	made := applied{revision: revision, config: config, madeFrom: from}
	if current := a.current(); current != nil && current.config.Version == config.Version {
		made.files = current.files
		a.took(made)
		return checkInterval, nil
	}
	made.files = a.files(config, revision, facts)
	if a.current() == nil && a.runsAlready(ctx, config) { // this agent is new, nginx is not
		// What lies there may be another, from the middle of an agent's work.
		if err := a.Nginx.Put(config, made.files); err != nil {
			return checkInterval, err
		}
		a.took(made)
		return 0, nil
	}
	begun := time.Now()
	err = a.Nginx.Apply(ctx, config, made.files)
	if ctx.Err() != nil {
		return checkInterval, nil
	}
	if err == nil {
		a.blamed = 0
		a.metrics.Reload(metrics.Taken)
		a.took(made)
		a.Log.Info("nginx took the configuration", "version", config.Version, "failedDisks", facts.Failed, "took", time.Since(begun).Round(time.Millisecond))
		return 0, nil
	}
	if name := nginxlog.DiskOf(err.Error()); a.blames(name, err) {
		a.Log.Warn("a disk keeps nginx from taking the configuration", "disk", name, "error", err)
		a.metrics.Reload(metrics.Failed)
		if a.blamed++; a.blamed < 20 {
			return retryInterval, nil
		}
		return checkInterval, err // the disk's probes find nothing wrong
	}
	if _, refused := errors.AsType[*reload.RefusedError](err); !refused {
		a.metrics.Reload(metrics.Failed)
		return checkInterval, err
	}
	a.refuse(revision, err.Error())
	return checkInterval, nil
}

// hasOther is true where nginx runs another revision, or could.
func (a *Agent) hasOther(revision agentapi.Revision) bool {
	if current := a.current(); current != nil {
		return current.revision.ID != revision.ID
	}
	o, _ := readOffers(a.Paths.Config) // wanted has reported the error
	return o.stable != nil && o.stable.ID != revision.ID
}

// contradictions are the limits of the spec that the pod's disks cannot hold.
func contradictions(revision agentapi.Revision, facts cache.Facts) string {
	var list []string
	for _, d := range revision.Spec.Disks {
		list = append(list, tuning.Contradictions(d, facts.Sizes[d.Name])...)
	}
	return strings.Join(list, "; ")
}

// runsAlready is true when nginx's workers answer with the version of the configuration.
func (a *Agent) runsAlready(ctx context.Context, config cache.Config) bool {
	return a.ask(ctx) == config.Version
}

// blames is true where the error names a disk of ours: it is no fault of the configuration, and the disk is probed.
func (a *Agent) blames(name string, err error) bool {
	if name == "" || !strings.Contains(err.Error(), " failed (") {
		return false
	}
	a.mutex.Lock()
	monitor := a.monitors[name]
	a.mutex.Unlock()
	if monitor == nil {
		return false
	}
	monitor.Wake()
	return true
}

// facts are the pod's own.
func (a *Agent) facts(revision agentapi.Revision) (cache.Facts, error) {
	workers, err := podinfo.Workers(a.Paths.PodInfo)
	if err != nil {
		return cache.Facts{}, err
	}
	memory, err := podinfo.Memory(a.Paths.PodInfo)
	if err != nil {
		return cache.Facts{}, err
	}
	facts := cache.Facts{Workers: workers, Memory: memory, Sizes: map[string]int64{}}
	if len(revision.Resolvers) == 0 {
		if facts.Resolvers, err = podinfo.Resolvers(a.Paths.ResolvConf); err != nil {
			return cache.Facts{}, fmt.Errorf("%s: %w", a.Paths.ResolvConf, err)
		}
	}
	if revision.Spec.Listen.TLS != nil {
		if facts.Certificate, err = a.listener(); err != nil {
			return cache.Facts{}, err
		}
	}
	for name, s := range a.states() {
		if s.Usage.Size > 0 {
			facts.Sizes[name] = s.Usage.Size
		}
	}
	facts.Failed = a.unused()
	return facts, nil
}

// check looks whether nginx runs what it was given, and tells it again if not: it may have started just when the file
// was exchanged.
func (a *Agent) check(ctx context.Context) {
	version := a.ask(ctx)
	current := a.current()
	if current != nil {
		timeout := tuning.Duration(current.revision.Spec.Rollout.WorkerShutdownTimeout)
		if killed := a.Nginx.KillStuck(time.Now(), timeout); killed > 0 {
			a.Log.Warn("ended old workers that wait for a disk", "workers", killed)
		}
	}
	if version == "" || current == nil || version == current.config.Version {
		a.strange = 0
	} else if a.strange++; a.strange > 1 && a.strange&(a.strange-1) == 0 { // once may be an old worker's last answer; then less and less often
		a.Log.Warn("nginx runs another configuration", "version", version, "want", current.config.Version)
		if err := a.Nginx.Apply(ctx, current.config, current.files); err != nil {
			a.setProblem(err)
		}
		version = a.ask(ctx)
	}
	a.answers(version)
}

// ask is the version that nginx answers with; "" while it does not.
func (a *Agent) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	version, err := a.Nginx.Version(ctx)
	if err != nil {
		return ""
	}
	return version
}
