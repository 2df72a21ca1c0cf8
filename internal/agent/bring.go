package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// bring renders a revision with the facts of the pod, and gives the configuration to nginx, unless nginx already has
// this configuration. again is the delay before the next step. problem is the error if bring failed; a refusal of the
// revision is not a problem.
func (c *conductor) bring(ctx context.Context, revision agentapi.Revision) (again time.Duration, problem error) {
	facts, err := c.facts(revision)
	if _, isMissing := errors.AsType[missingCertificateError](err); isMissing {
		// Until the certificate comes, changes of the disks and pods still reach the revision that nginx runs.
		if current := c.current(); current != nil && current.revision.ID != revision.ID {
			again, problem := c.bring(ctx, current.revision)
			return again, errors.Join(err, problem)
		}
	}
	if err != nil {
		return checkInterval, err
	}
	from := revision.ID + fmt.Sprint(facts)
	if current := c.current(); current != nil && current.madeFrom == from {
		return checkInterval, c.noteDisks(current.used)
	}
	// A revision whose limits are too high for the disks is refused only if nginx can run another revision. Otherwise,
	// the limits are lowered to what the disks can hold.
	problems := contradictions(revision, facts)
	if problems != "" && c.hasOther(revision) {
		c.refuse(revision, problems)
		return checkInterval, nil
	}
	c.setLowered(problems)
	made := applied{revision: revision, madeFrom: from, used: used(revision, facts.Failed)}
	made.fleet, made.share, made.generations = facts.Fleet.Serial, facts.Fleet.Share(), facts.Generations
	made.openFiles = facts.OpenFiles
	if wait := c.wait(ctx, made, facts.Memory); wait > 0 {
		return wait, nil
	}
	if current := c.current(); current != nil {
		now := c.clock.Now()
		c.former.add(current.revision.Routes, revision.Routes, now, now.Add(formerFor(current.revision)))
	}
	also, policies := c.former.beside(revision.Routes, routes.Table{}, c.clock.Now())
	config, err := cache.Render(cache.Input{Revision: revision, Facts: facts, Also: also, AlsoPolicies: policies})
	if err != nil {
		c.refuse(revision, err.Error(), c.refusedRoutes(ctx, revision, facts)...)
		return checkInterval, nil
	}
	made.config, made.keeps = config, keeps(revision, config, facts.Fleet)
	c.metrics.Pods(slices.Concat(facts.Fleet.Members, facts.Fleet.Previous.Members))
	if current := c.current(); current != nil && current.config.Version == config.Version {
		made.files = current.files
		return checkInterval, c.take(made)
	}
	made.files = c.files(config, facts)
	return c.give(ctx, made, facts)
}

// mayWait returns true if a reload can wait, because it brings only another revision. A change of the pods or the disks
// does not wait.
func (c *conductor) mayWait(made applied) bool {
	current := c.current()
	return current != nil && current.revision.ID != made.revision.ID && current.fleet == made.fleet &&
		slices.Equal(current.used, made.used) && maps.Equal(current.generations, made.generations)
}

// wait returns how long nginx must not reload yet: until the memory of old workers allows it (see [reload.Pause]), and
// until nginx knows the names of the revision (see announce).
func (c *conductor) wait(ctx context.Context, made applied, memory int64) time.Duration {
	if !c.mayWait(made) {
		return 0
	}
	if wait := reload.Pause(c.clock.Since(c.reloaded), c.Nginx.Leaving(), memory); wait > 0 {
		return min(wait, pauseInterval)
	}
	return c.announce(ctx, made.revision)
}

// give gives nginx a configuration that differs from the previous one.
func (c *conductor) give(ctx context.Context, made applied, facts cache.Facts) (again time.Duration, problem error) {
	config := made.config
	if c.current() == nil && c.runsAlready(ctx, config) { // the agent was restarted, nginx was not
		// The file in place may contain another configuration if an earlier agent was interrupted.
		if err := c.Nginx.Put(config, made.files); err != nil {
			return checkInterval, err
		}
		return 0, c.take(made)
	}
	before := c.noted
	if err := c.noteDisks(slices.Concat(made.used, before)); err != nil { // nginx may use old and new disks
		return checkInterval, err
	}
	begun := c.clock.Now()
	c.reloaded, c.memory = begun, facts.Memory
	err := c.Nginx.Apply(ctx, config, made.files)
	if ctx.Err() != nil {
		return checkInterval, nil
	}
	if err == nil {
		c.blamed = 0
		c.metrics.Reload(metrics.Taken)
		c.Log.Info("nginx took the configuration", "version", config.Version,
			"failedDisks", facts.Failed, "took", c.clock.Since(begun).Round(time.Millisecond))
		return 0, c.take(made)
	}
	refused, isRefused := errors.AsType[*reload.RefusedError](err)
	if isRefused && !refused.Slow && before != nil { // nginx continues with the previous disks
		if err := c.noteDisks(before); err != nil {
			return checkInterval, err
		}
	}
	if isRefused && c.blames(refused.Disk) {
		c.Log.Warn("a disk keeps nginx from taking the configuration", "disk", refused.Disk, "error", err)
		c.metrics.Reload(metrics.Failed)
		if c.blamed++; c.blamed < 20 {
			return retryInterval, nil
		}
		return checkInterval, err // the probes of the disk find no error
	}
	if !isRefused {
		c.metrics.Reload(metrics.Failed)
		return checkInterval, err
	}
	var routes []string
	if !refused.Slow {
		routes = c.refusedRoutes(ctx, made.revision, facts)
	}
	c.refuse(made.revision, err.Error(), routes...)
	return checkInterval, nil
}

// hasOther reports whether nginx runs another revision. If nginx has no configuration from this agent yet, hasOther
// reports whether the stable revision is another one, so that nginx could run that revision.
func (c *conductor) hasOther(revision agentapi.Revision) bool {
	if current := c.current(); current != nil {
		return current.revision.ID != revision.ID
	}
	o, _ := readOffers(c.Paths.Config) // the method wanted has already reported this error
	return o.stable != nil && o.stable.ID != revision.ID
}

// contradictions describes the limits in the spec that are too high for the pod's disks; "" if there are none.
func contradictions(revision agentapi.Revision, facts cache.Facts) string {
	var list []string
	for _, d := range revision.Spec.Disks {
		list = append(list, effective.Contradictions(d, facts.Sizes[d.Name])...)
	}
	return strings.Join(list, "; ")
}

// runsAlready reports whether nginx already runs a configuration. If so, a worker of nginx answers with the version of
// this configuration.
func (c *conductor) runsAlready(ctx context.Context, config cache.Config) bool {
	return c.ask(ctx) == config.Version
}

// blames reports whether the pod has a disk with the name. If so, it requests a probe of the disk.
func (c *conductor) blames(name string) bool {
	c.mutex.Lock()
	monitor := c.monitors[name]
	c.mutex.Unlock()
	if monitor == nil {
		return false
	}
	monitor.Wake()
	return true
}

// facts returns the facts of the pod with which a configuration is rendered.
func (c *conductor) facts(revision agentapi.Revision) (cache.Facts, error) {
	cores, err := podinfo.Cores(c.Paths.PodInfo)
	if err != nil {
		return cache.Facts{}, err
	}
	memory, err := podinfo.Memory(c.Paths.PodInfo)
	if err != nil {
		return cache.Facts{}, err
	}
	facts := cache.Facts{
		Cores: cores, Memory: memory, OpenFiles: c.openFiles(), Scripts: c.hasScripts(), Sizes: map[string]int64{},
	}
	if revision.Spec.Listen.TLS != nil {
		if facts.Certificate, err = c.listener(); err != nil {
			return cache.Facts{}, err
		}
	}
	if err := c.copyCertificates(revision.Routes.Certificates()); err != nil {
		return cache.Facts{}, err
	}
	if facts.Fleet, err = c.fleet(revision); err != nil {
		return cache.Facts{}, err
	}
	for name, s := range c.states() {
		if s.Usage.Size > 0 {
			facts.Sizes[name] = s.Usage.Size
		}
	}
	facts.Failed = c.unused()
	// The generations are read after the unused disks. If a disk gets a new generation in between, it stays unused.
	facts.Generations = c.purger.Generations()
	facts.Waits = revision.Spec.IO.Mode == v1alpha1.IOWorkers && c.waits()
	return facts, nil
}

// openFiles returns the limit on open files of each of nginx's processes; 0 if it is not known. While nginx does not
// run, it returns the agent's own limit: by default, the container runtime sets the same limit for all containers of
// a pod.
func (c *conductor) openFiles() int64 {
	if master := c.Nginx.Master(); master != 0 {
		if limit := podinfo.OpenFiles(fmt.Sprintf("/proc/%d", master)); limit > 0 {
			return limit
		}
	}
	return podinfo.OpenFiles("/proc/self")
}

// check checks that nginx runs the configuration that the agent gave it. If nginx runs another configuration, check
// applies the agent's configuration again. A possible cause is that nginx started while the agent was replacing the
// file.
func (c *conductor) check(ctx context.Context) {
	c.noticeRestart()
	current := c.current()
	if current != nil {
		timeout := effective.Duration(current.revision.Spec.Rollout.WorkerShutdownTimeout)
		readForThemselves := current.revision.Spec.IO.Mode == v1alpha1.IOWorkers
		if killed := c.Nginx.KillStuck(c.clock.Now(), timeout, readForThemselves); killed > 0 {
			c.Log.Warn("ended old workers that wait for a disk", "workers", killed)
		}
		if ended := c.Nginx.EndOldest(c.memory); ended > 0 {
			c.Log.Warn("ended old workers, which took half of the memory", "workers", ended)
		}
	}
	version, woken := c.askUnlessWoken(ctx)
	if woken {
		return
	}
	if version == "" || current == nil || version == current.config.Version {
		c.strange, c.unmended = 0, nil
	} else if c.strange++; c.strange > 1 && c.strange&(c.strange-1) == 0 {
		// The first wrong answer may come from an old worker. After that, only the second, fourth, eighth wrong answer in a
		// row, and so on, makes the agent apply the configuration again.
		c.Log.Warn("nginx runs another configuration", "version", version, "want", current.config.Version)
		c.unmended = c.Nginx.Apply(ctx, current.config, current.files)
		version = c.ask(ctx)
	}
	c.answers(version)
}

// askUnlessWoken asks nginx for its version, but stops waiting when the agent is woken. All workers may be waiting
// for a disk, and the event that woke the agent may end their wait.
func (c *conductor) askUnlessWoken(ctx context.Context) (version string, woken bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan string, 1)
	go func() { answer <- c.ask(ctx) }()
	select {
	case version := <-answer:
		return version, false
	case <-c.wake:
		c.Wake() // so that Run is woken too
		return "", true
	}
}

// noticeRestart detects from the process ID of nginx's master that nginx has restarted. After a restart, nginx reads
// the indexes of its disks again, so noticeRestart marks these indexes as not loaded.
func (c *conductor) noticeRestart() {
	master := c.Nginx.Master()
	if master == 0 {
		return
	}
	if c.master != 0 && c.master != master {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		for name := range c.monitors {
			c.metrics.SetLoaded(name, false)
		}
	}
	c.master = master
}

// ask returns the version of the configuration that nginx runs; "" if nginx does not answer.
func (a *Agent) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	version, err := a.Nginx.Version(ctx)
	if err != nil {
		return ""
	}
	return version
}
