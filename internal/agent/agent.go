// Package agent is what runs beside nginx in each pod: it renders the configuration from node.json and the pod's own
// facts, brings it into nginx, watches over the disks, and reports.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Paths are where the agent finds what it reads. In a pod they are naming's.
type Paths struct {
	Config, PodInfo, Listener, ResolvConf string
	// Root goes before the paths of disks; "" in a pod.
	Root string
}

// Agent is the conductor: one goroutine decides what nginx runs; monitors, log reader and servers tell it and ask it.
type Agent struct {
	Paths   Paths
	Nginx   *reload.Nginx
	Log     *slog.Logger
	Version string

	metrics *metrics.Metrics
	devices disk.Devices
	wake    chan struct{}

	mutex    sync.Mutex
	monitors map[string]*disk.Monitor
	counts   map[string]metrics.Files
	// applied is what nginx was given last and took, or will find when it starts.
	applied *applied
	// answered is the version that nginx's workers answer with, since when; "" while they do not.
	answered string
	since    time.Time
	refusal  *agentapi.Refusal
	// retry is the value of the pod's annotation that asks to try a refused revision again.
	retry string
	// pair is the certificate and key that clients are to see, as they were read last. Only the conductor uses it.
	pair podinfo.KeyPair
	// retrying: the last try failed for want of a disk that is not found out yet.
	retrying bool
	problem  string
	nginx    string // nginx's own version
	// blamed counts the tries in a row that failed for a disk. Only the conductor uses it.
	blamed int
	// strange counts the checks in a row in which nginx ran something else. Only the conductor uses it.
	strange int
}

// applied is a configuration with what it was made from.
type applied struct {
	node   agentapi.Node
	config cache.Config
	// madeFrom identifies revision and facts, so that nothing is rendered twice.
	madeFrom string
	files    []reload.File
}

// New makes an agent.
func New(paths Paths, nginx *reload.Nginx, log *slog.Logger, version string) *Agent {
	a := &Agent{
		Paths: paths, Nginx: nginx, Log: log, Version: version,
		wake: make(chan struct{}, 1), monitors: map[string]*disk.Monitor{}, counts: map[string]metrics.Files{},
	}
	a.metrics = metrics.New(a.states, a.cacheFiles)
	return a
}

// Metrics are the pod's numbers.
func (a *Agent) Metrics() *metrics.Metrics { return a.metrics }

// Wake makes the agent look again: a file or a disk has changed.
func (a *Agent) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

const (
	// checkInterval is the time between two looks at nginx.
	checkInterval = 2 * time.Second
	// fileInterval is the time between two looks at files whose change nobody told of.
	fileInterval = 10 * time.Second
	// retryInterval is the time to the next try after one that failed for want of a disk that is not found out yet.
	retryInterval = 200 * time.Millisecond
)

// Run conducts until the context ends.
func (a *Agent) Run(ctx context.Context) {
	a.askNginxVersion(ctx)
	var looked time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.wake:
			looked = time.Time{}
		}
		wait := checkInterval
		if now := time.Now(); now.Sub(looked) >= fileInterval || a.isUnsettled() {
			looked = now
			wait = a.step(ctx)
		}
		a.check(ctx)
		timer.Reset(wait)
	}
}

// isUnsettled is true while the agent has something to do of which no event tells.
func (a *Agent) isUnsettled() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.applied == nil || a.problem != "" || a.retrying
}

// step brings nginx one step nearer to what it should run, and returns when to look again.
func (a *Agent) step(ctx context.Context) time.Duration {
	node, err := a.wanted()
	a.setProblem(err)
	if node == nil {
		return checkInterval
	}
	a.mutex.Lock()
	if a.refusal != nil && a.refusal.Revision != node.Revision {
		a.refusal = nil // another is wanted: should this one be wanted again, it is tried again
	}
	a.mutex.Unlock()
	a.watchDisks(ctx, *node)
	if a.isStarting() {
		return retryInterval // the first probes decide which disks nginx starts with
	}
	wait := checkInterval
	if !a.isRefused(node.Revision) {
		wait = a.bring(ctx, *node)
	}
	if a.isRefused(node.Revision) {
		if good := a.lastGood(); good != nil { // the pod's facts may have changed all the same
			wait = a.bring(ctx, *good)
		}
	}
	a.mutex.Lock()
	a.retrying = wait < checkInterval
	a.mutex.Unlock()
	return wait
}

// wanted is the node that the pod is to run; with an error, it may still be one to go on with.
func (a *Agent) wanted() (*agentapi.Node, error) {
	annotations, annotationsErr := podinfo.Annotations(a.Paths.PodInfo)
	if retry := annotations[naming.AnnotationRetry]; annotationsErr == nil && retry != a.retry {
		a.forget(retry)
	}
	o, err := readOffers(a.Paths.Config)
	return choose(o, annotations[naming.AnnotationRevision], a.running()), errors.Join(err, annotationsErr)
}

// lastGood is what to go on with when the wanted revision is refused: what runs, or, in a pod that runs nothing yet, the
// stable revision, if that is another.
func (a *Agent) lastGood() *agentapi.Node {
	if running := a.running(); running != nil {
		return running
	}
	o, _ := readOffers(a.Paths.Config) // wanted has reported the error
	if o.stable != nil && !a.isRefused(o.stable.Revision) {
		return o.stable
	}
	return nil
}

// bring renders a node with the pod's facts and gives it to nginx, if it is not what nginx has.
func (a *Agent) bring(ctx context.Context, node agentapi.Node) time.Duration {
	facts, err := a.facts(node)
	if err != nil {
		a.setProblem(err)
		return checkInterval
	}
	from := node.Revision + fmt.Sprint(facts)
	if current := a.current(); current != nil && current.madeFrom == from {
		return checkInterval
	}
	config, err := cache.Render(cache.Input{Node: node, Facts: facts})
	if err != nil {
		a.refuse(node, err.Error())
		return checkInterval
	}
	made := applied{node: node, config: config, madeFrom: from}
	if current := a.current(); current != nil && current.config.Version == config.Version {
		made.files = current.files
		a.took(made)
		return checkInterval
	}
	made.files = a.files(config, node, facts)
	if a.current() == nil && a.runsAlready(ctx, config) { // this agent is new, nginx is not
		// What lies there may be another, from the middle of an agent's work.
		if err := a.Nginx.Put(config, made.files); err != nil {
			a.setProblem(err)
			return checkInterval
		}
		a.took(made)
		return 0
	}
	begun := time.Now()
	err = a.Nginx.Apply(ctx, config, made.files)
	if ctx.Err() != nil {
		return checkInterval
	}
	if err == nil {
		a.blamed = 0
		a.metrics.Reload("taken")
		a.took(made)
		a.Log.Info("nginx took the configuration", "version", config.Version, "failedDisks", facts.Failed, "took", time.Since(begun).Round(time.Millisecond))
		return 0
	}
	if name := nginxlog.DiskOf(err.Error()); a.blames(name, err) {
		a.Log.Warn("a disk keeps nginx from taking the configuration", "disk", name, "error", err)
		a.metrics.Reload("failed")
		if a.blamed++; a.blamed < 20 {
			return retryInterval
		}
		a.setProblem(err) // the disk's probes find nothing wrong
		return checkInterval
	}
	if _, refused := errors.AsType[*reload.RefusedError](err); !refused {
		a.metrics.Reload("failed")
		a.setProblem(err)
		return checkInterval
	}
	a.refuse(node, err.Error())
	return checkInterval
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
func (a *Agent) facts(node agentapi.Node) (cache.Facts, error) {
	workers, err := podinfo.Workers(a.Paths.PodInfo)
	if err != nil {
		return cache.Facts{}, err
	}
	facts := cache.Facts{Workers: workers, Sizes: map[string]int64{}}
	if len(node.Resolvers) == 0 {
		if facts.Resolvers, err = podinfo.Resolvers(a.Paths.ResolvConf); err != nil {
			return cache.Facts{}, fmt.Errorf("%s: %w", a.Paths.ResolvConf, err)
		}
	}
	if node.Spec.Listen.TLS != nil {
		if facts.Certificate, err = a.listener(); err != nil {
			return cache.Facts{}, err
		}
	}
	for name, s := range a.states() {
		if s.Status != disk.Healthy {
			facts.Failed = append(facts.Failed, name)
		}
		if s.Usage.Size > 0 {
			facts.Sizes[name] = s.Usage.Size
		}
	}
	slices.Sort(facts.Failed)
	return facts, nil
}

// check looks whether nginx runs what it was given, and tells it again if not: it may have started just when the file
// was exchanged.
func (a *Agent) check(ctx context.Context) {
	version := a.ask(ctx)
	current := a.current()
	if current != nil {
		timeout := tuning.Duration(current.node.Spec.Rollout.WorkerShutdownTimeout)
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

func (a *Agent) setProblem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if text != "" && text != a.problem {
		a.Log.Error("cannot work", "error", text)
	}
	a.problem = text
}

// refuse notes that nginx did not take a revision. The same revision is not tried again.
func (a *Agent) refuse(node agentapi.Node, message string) {
	a.Log.Error("nginx refused the configuration", "revision", node.Revision, "message", message)
	a.metrics.Reload("refused")
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.refusal = &agentapi.Refusal{Revision: node.Revision, Message: message, Retry: a.retry}
}

// forget makes the agent try again what was refused.
func (a *Agent) forget(retry string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.retry, a.refusal = retry, nil
}

func (a *Agent) isRefused(revision string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.refusal != nil && a.refusal.Revision == revision
}

func (a *Agent) took(made applied) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.refusal != nil && a.refusal.Revision == made.node.Revision {
		a.refusal = nil
	}
	a.applied = &made
}

func (a *Agent) answers(version string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if version != a.answered {
		if a.answered == "" && !a.since.IsZero() { // nginx has started again, and reads the indexes of its disks
			for name := range a.monitors {
				a.metrics.SetLoaded(name, false)
			}
		}
		a.answered, a.since = version, time.Now()
	}
	revision, _, _ := strings.Cut(version, "-")
	var sampling int32
	if a.applied != nil && a.applied.node.Spec.Monitoring.RequestSampling != nil {
		sampling = *a.applied.node.Spec.Monitoring.RequestSampling
	}
	a.metrics.Running(revision, sampling)
}

func (a *Agent) current() *applied {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.applied
}

func (a *Agent) running() *agentapi.Node {
	if current := a.current(); current != nil {
		return &current.node
	}
	return nil
}

// Started is true when nginx has a configuration to start with.
func (a *Agent) Started() bool { return a.current() != nil }

// Report is what the operator reads.
func (a *Agent) Report() agentapi.Report {
	states := a.states()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	r := agentapi.Report{
		AgentVersion: a.Version, NginxVersion: a.nginx, Since: a.since, Refusal: a.refusal, Problem: a.problem,
	}
	r.Revision, _, _ = strings.Cut(a.answered, "-")
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name]
		d := agentapi.DiskReport{
			Name: name, Status: string(s.Status), Reason: string(s.Reason), Message: s.Message, Since: s.Since,
			NeedsNewPod: s.Reason.NeedsNewPod(),
		}
		if a.applied != nil && a.applied.config.Cached {
			d.Share = a.applied.config.Plan.Share(name)
		}
		r.Disks = append(r.Disks, d)
	}
	return r
}
