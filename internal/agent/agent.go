// Package agent runs beside nginx in each pod. It renders the configuration from the revision and the facts of the pod,
// gives it to nginx, probes the disks, and reports to the operator.
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

// Paths are the folders and files that the agent reads, and the name of its pod. In a pod most of them are the paths of
// package layout.
type Paths struct {
	Config, PodInfo, Listener, Owner, Peer, Purges, ResolvConf string
	// Hostname is the name of the pod.
	Hostname string
	// Root is a prefix of the paths of disks; "" in a pod.
	Root string
}

// Agent decides what nginx runs. One goroutine, the conductor, makes all decisions. Disk monitors, the log reader and
// the HTTP servers run beside it.
type Agent struct {
	Paths   Paths
	Nginx   *reload.Nginx
	Log     *slog.Logger
	Version string

	// clock tells the time to all that the agent runs but the monitors of disks.
	clock   clock.Clock
	metrics *metrics.Metrics
	purger  *purge.Purger
	// resolver tells nginx the addresses of names.
	resolver   *resolver.Resolver
	devices    disk.Devices
	wake       chan struct{}
	background sync.WaitGroup // what Run has begun, and does not wait for, as it may wait for a disk

	mutex sync.Mutex
	// began is when the agent began.
	began    time.Time
	monitors map[string]*disk.Monitor
	counts   map[string]metrics.Files
	// drained are the disks that a user has taken out of use. abandoned are, by disk, deleted CacheNodes whose caches may
	// be deleted.
	drained   map[string]bool
	abandoned map[string]string
	// applied is the last configuration that nginx took, or that it will read when it starts.
	applied *applied
	// answered is the version that nginx's workers answer with; "" while they do not answer. since is when it last
	// changed.
	answered string
	since    time.Time
	// exhausted is when nginx last reported that it has no connection left.
	exhausted time.Time
	refusal   *agentapi.Refusal
	// retry is the value of the pod annotation that asks to retry a refused revision.
	retry string
	// pair is the certificate and key for clients, as last read. Only the conductor uses it.
	pair podinfo.KeyPair
	// peers is what pods show to each other, as last read. Only the conductor uses it.
	peers podinfo.Peers
	// retrying is true if the last step asked to be repeated before checkInterval, as after an error of a disk that its
	// probes have not found yet.
	retrying bool
	problem  string
	// lowered names the limits of the running revision that the disks cannot hold.
	lowered string
	nginx   string // the version of nginx's program
	scripts bool   // nginx has the module for scripts
	// noScripts is true if it is known that nginx lacks it. Both are false while that is not known.
	noScripts bool
	asked     bool // nginx's program has answered. Only the conductor uses it.
	// blamed counts the consecutive tries that failed because of a disk. Only the conductor uses it.
	blamed int
	// strange counts the consecutive checks in which nginx ran another configuration. Only the conductor uses it.
	strange int
	// master is the process id of nginx's master when it last ran. Only the conductor uses it.
	master int
	// unmended is the error of the last try to give nginx its configuration back. Only the conductor uses it.
	unmended error
	unsafe   unsafeURLs
}

// applied is a configuration and what it was made from.
type applied struct {
	revision agentapi.Revision
	config   cache.Config
	// madeFrom identifies the revision and the facts, so that the same configuration is not rendered again.
	madeFrom string
	files    []cache.File
	// fleet is the serial of the fleet in the facts, share the share of the keys that the pod owns by it.
	fleet int64
	share float64
	// used are the disks that nginx uses with it, and keeps is what they keep.
	used  []string
	keeps sweep.Rules
	// openFiles is the limit on open files in the facts.
	openFiles int64
	// generations are those of the disks' keys with it.
	generations map[string]int64
}

// New returns an agent that does nothing until Run or Serve.
func New(paths Paths, nginx *reload.Nginx, log *slog.Logger, version string, c clock.Clock) *Agent {
	a := &Agent{
		Paths: paths, Nginx: nginx, Log: log, Version: version, clock: c,
		began: c.Now(), wake: make(chan struct{}, 1),
		monitors: map[string]*disk.Monitor{}, counts: map[string]metrics.Files{},
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

const (
	// checkInterval is the time between two checks of nginx.
	checkInterval = 2 * time.Second
	// fileInterval is the time after which files are read again even if no change was reported.
	fileInterval = 10 * time.Second
	// retryInterval is the delay before the next step while the first probes run, or while the probes have not found the
	// disk that failed.
	retryInterval = 200 * time.Millisecond
)

// Run runs the conductor. It returns when the context ends.
func (a *Agent) Run(ctx context.Context) {
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
			a.askNginx(ctx)
			wait = a.step(ctx)
		}
		a.check(ctx)
		timer.Reset(wait)
	}
}

// isUnsettled reports whether the agent has work that no event announces.
func (a *Agent) isUnsettled() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.applied == nil || a.problem != "" || a.retrying
}

// step brings nginx one step nearer to the wanted configuration and returns the time to the next step.
func (a *Agent) step(ctx context.Context) time.Duration {
	revision, problem := a.wanted()
	// Once a step, so that a report in between shows no other problem.
	defer func() { a.setProblem(errors.Join(problem, a.unmended)) }()
	if revision == nil {
		return checkInterval
	}
	a.mutex.Lock()
	if a.refusal != nil && a.refusal.Revision != revision.ID {
		a.refusal = nil // another is wanted now; the refused one is tried again if it is wanted again
	}
	a.mutex.Unlock()
	problem = errors.Join(problem, a.configureResolver(*revision), a.resolver.Problem())
	a.readPurges()
	a.purger.Configure(effective.TagHeaders(revision.Spec), a.policies(*revision)...)
	a.purger.SetHides(revision.Spec.Purge.Unindexed != v1alpha1.UnindexedWait)
	a.watchDisks(ctx, *revision)
	a.purgeMemory(ctx, *revision)
	a.assumeInUse(*revision)
	if a.isStarting() {
		return retryInterval // the first probes decide which disks nginx starts with
	}
	wait, err := checkInterval, error(nil)
	if !a.isRefused(revision.ID) {
		wait, err = a.bring(ctx, *revision)
		problem = errors.Join(problem, err)
	}
	if a.isRefused(revision.ID) {
		if good := a.lastGood(); good != nil { // the pod's facts may have changed
			wait, err = a.bring(ctx, *good)
			problem = errors.Join(problem, err)
		}
	}
	a.mutex.Lock()
	a.retrying = wait < checkInterval
	a.mutex.Unlock()
	return wait
}

// wanted returns the revision that the pod is to run. With an error, it may still be a revision that can be used.
func (a *Agent) wanted() (*agentapi.Revision, error) {
	annotations, annotationsErr := podinfo.Annotations(a.Paths.PodInfo)
	if retry := annotations[v1alpha1.AnnotationRetry]; annotationsErr == nil && retry != a.retry {
		a.forget(retry)
	}
	if annotationsErr == nil {
		a.heed(annotations)
	}
	o, err := readOffers(a.Paths.Config)
	return choose(o, annotations[naming.AnnotationRevision], a.running()), errors.Join(err, annotationsErr)
}

// lastGood returns what nginx runs when the wanted revision is refused: the running revision or, in a pod that runs
// nothing yet, the stable revision if that is not the refused one.
func (a *Agent) lastGood() *agentapi.Revision {
	if running := a.running(); running != nil {
		return running
	}
	o, _ := readOffers(a.Paths.Config) // wanted has reported the error
	if o.stable != nil && !a.isRefused(o.stable.ID) {
		return o.stable
	}
	return nil
}
