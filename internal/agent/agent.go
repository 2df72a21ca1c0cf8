// Package agent runs beside nginx in each pod. It renders nginx's configuration from the revision and the facts of
// the pod, such as its memory and its failed disks. It gives the configuration to nginx, probes the disks, and
// reports to the operator.
//
// It may import the API's types, the packages that interpret a spec or render configurations from it, and the
// packages in its own subfolders. The conductor is the goroutine that brings nginx to the wanted revision. Code for a
// new source of events goes into run.go, and wakes the conductor. Code for a new fact about the pod goes into the
// method facts in bring.go.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/purge"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// Paths are the folders and files that the agent reads, and the name of its pod. In a pod, most of these paths come
// from package layout.
type Paths struct {
	Config, PodInfo, Listener, Owner, Peer, Purges, Certificates, ResolvConf string
	// Hostname is the name of the pod.
	Hostname string
	// Root is prepended to the paths of disks and to the other paths that the agent takes from package layout; "" in a
	// pod.
	Root string
}

// Agent decides what nginx runs. One goroutine, the conductor, makes all decisions. Disk monitors, the log reader and
// the HTTP servers run beside it. An Agent is safe for concurrent use.
type Agent struct {
	Paths   Paths
	Nginx   *reload.Nginx
	Log     *slog.Logger
	Version string

	// clock is the clock for everything that the agent runs, except the disk monitors.
	clock clock.Clock
	// startPatience is the longest time for which the first start of nginx waits for purges.
	startPatience time.Duration
	// namesPatience is the longest time for which a pod or a reload waits for names; see [Agent.knowsNames].
	namesPatience time.Duration

	metrics *metrics.Metrics
	purger  *purge.Purger
	// resolver answers nginx's DNS queries.
	resolver   *resolver.Resolver
	devices    disk.Devices
	wake       chan struct{}
	background sync.WaitGroup // goroutines that may wait for a disk; Run starts them, and does not wait for them

	podState
}

// applied is a configuration and the input from which the agent rendered it.
type applied struct {
	revision agentapi.Revision
	config   cache.Config
	// madeFrom identifies the revision and the facts, so that the same configuration is not rendered again.
	madeFrom string
	files    []cache.File
	// fleet is the serial number of the fleet, the set of pods that share keys; see package fleet. share is the share of
	// the keys that this pod owns in the fleet.
	fleet int64
	share float64
	// used lists the disks that nginx uses with this configuration. keeps contains the rules by which a sweep of these
	// disks keeps or removes files.
	used  []string
	keeps sweep.Rules
	// openFiles is the limit on open files in the facts.
	openFiles int64
	// generations contains the generation of each disk's keys in this configuration.
	generations map[string]int64
}

// New returns an agent that does nothing until Run or Serve is called.
func New(paths Paths, nginx *reload.Nginx, log *slog.Logger, version string, c clock.Clock) *Agent {
	a := &Agent{
		Paths: paths, Nginx: nginx, Log: log, Version: version, clock: c,
		startPatience: purgePatience, namesPatience: namesPatience,
		wake:     make(chan struct{}, 1),
		podState: podState{began: c.Now(), monitors: map[string]*disk.Monitor{}, counts: map[string]metrics.Files{}},
	}
	a.metrics = metrics.New(c, a.states, a.cacheFiles)
	a.resolver = resolver.New(log, c, a.metrics.Name)
	a.purger = purge.New(log, paths.Root+layout.PurgesCopy)
	a.purger.Clock = c
	a.purger.Current, a.purger.Removed, a.purger.Processes = a.newlyCurrent, a.metrics.Removed, nginx.Processes
	return a
}

// Metrics returns the metrics of the pod.
func (a *Agent) Metrics() *metrics.Metrics { return a.metrics }

// Wake makes the agent check again at once, because a file or a disk has changed.
func (a *Agent) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// conductor brings the pod to the wanted revision, step by step. Only its own goroutine uses the conductor. Methods
// that other goroutines call belong to Agent.
type conductor struct {
	*Agent
	// pair contains the certificate that nginx shows to clients, and the key of this certificate. peers contains the
	// certificate, key and authority for connections between pods. Both are the values that the agent last read.
	pair  podinfo.KeyPair
	peers podinfo.Peers
	// certificates are the certificates of Gateways that nginx can read.
	certificates gatewayCertificates
	// asked is true once nginx's program has reported its version and whether it has the module for scripts.
	asked bool
	// noted lists the disks that nginx may use, as the file [layout.DisksInUse] lists them.
	noted []string
	// blamed is the number of times in a row that nginx did not take a configuration because of a disk. strange is the
	// number of checks in a row in which nginx ran a configuration other than the agent's current one.
	blamed, strange int
	// master is the process ID of nginx's master in the last check in which the master ran.
	master int
	// reloaded is the time of the last reload, and memory is the memory that nginx had then, in bytes; 0 if the agent has
	// not reloaded nginx yet.
	reloaded time.Time
	memory   int64
	// announced is the last revision that was announced to nginx, and former the actions of earlier revisions.
	announced announced
	former    former
	// unmended is the error of the method check when it last tried to make nginx run the agent's current configuration
	// again; nil if that was not necessary or succeeded.
	unmended error
}

const (
	// checkInterval is the time between two checks of nginx.
	checkInterval = 2 * time.Second
	// fileInterval is the time after which files are read again even if no change was reported.
	fileInterval = 10 * time.Second
	// pauseInterval is the time after which the agent looks again whether a reload must still wait; see [reload.Pause].
	pauseInterval = 500 * time.Millisecond
	// retryInterval is the delay before the next step while the first probes run, or while the probes have not yet found
	// which disk has failed.
	retryInterval = 200 * time.Millisecond
)

// Run runs the conductor. It returns when the context ends.
func (a *Agent) Run(ctx context.Context) {
	c := &conductor{Agent: a, former: former{}}
	var looked time.Time
	timer := a.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-a.wake:
			looked = time.Time{}
		}
		wait := checkInterval
		if now := a.clock.Now(); now.Sub(looked) >= fileInterval || a.isUnsettled() {
			looked = now
			c.askNginx(ctx)
			wait = c.step(ctx)
		}
		c.check(ctx)
		timer.Reset(wait)
	}
}

// step brings nginx one step nearer to the wanted configuration and returns the delay before the next step.
func (c *conductor) step(ctx context.Context) time.Duration {
	revision, problem := c.wanted()
	// The problem is set once in each step, so that a report during the step does not show an intermediate problem.
	defer func() { c.setProblem(errors.Join(problem, c.unmended)) }()
	if revision == nil {
		return checkInterval
	}
	c.mutex.Lock()
	if c.refusal != nil && c.refusal.Revision != revision.ID {
		c.refusal = nil // if the refused revision is wanted again later, the agent tries it again
	}
	c.mutex.Unlock()
	problem = errors.Join(problem, c.configureResolver(*revision), c.resolver.Problem())
	c.readPurges()
	c.purger.Configure(effective.TagHeaders(revision.Spec), c.policies(*revision)...)
	c.purger.SetHides(revision.Spec.Purge.Unindexed != v1alpha1.UnindexedWait)
	c.watchDisks(ctx, *revision)
	c.purgeMemory(ctx, *revision)
	c.assumeInUse()
	if c.isStarting() {
		return retryInterval // the first probes decide which disks nginx starts with
	}
	wait, err := checkInterval, error(nil)
	if !c.isRefused(revision.ID) {
		wait, err = c.bring(ctx, *revision)
		problem = errors.Join(problem, err)
	}
	if c.isRefused(revision.ID) {
		if good := c.lastGood(); good != nil { // the pod's facts may have changed
			wait, err = c.bring(ctx, *good)
			problem = errors.Join(problem, err)
		}
	}
	c.mutex.Lock()
	c.retrying = wait < checkInterval
	c.mutex.Unlock()
	return wait
}

// wanted returns the revision that the pod is to run. Even with an error, wanted may return a revision that can be
// used.
func (c *conductor) wanted() (*agentapi.Revision, error) {
	annotations, annotationsErr := podinfo.Annotations(c.Paths.PodInfo)
	if retry := annotations[v1alpha1.AnnotationRetry]; annotationsErr == nil && retry != c.retry {
		c.forget(retry)
	}
	if annotationsErr == nil {
		c.heed(annotations)
	}
	o, err := readOffers(c.Paths.Config)
	return choose(o, annotations[naming.AnnotationRevision], c.running()), errors.Join(err, annotationsErr)
}

// lastGood returns the revision for nginx when the wanted revision is refused: the running revision, if there is one.
// In a pod that runs nothing yet, it returns the stable revision, or nil if the stable revision is refused too.
func (c *conductor) lastGood() *agentapi.Revision {
	if running := c.running(); running != nil {
		return running
	}
	o, _ := readOffers(c.Paths.Config) // the method wanted has already reported this error
	if o.stable != nil && !c.isRefused(o.stable.ID) {
		return o.stable
	}
	return nil
}
