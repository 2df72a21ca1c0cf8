// Package agent is what runs beside nginx in each pod: it renders the configuration from revision and the pod's own
// facts, brings it into nginx, watches over the disks, and reports.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// Paths are where the agent finds what it reads. In a pod they are naming's.
type Paths struct {
	Config, PodInfo, Listener, Owner, ResolvConf string
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
	// drained are the disks that a person has had taken out of use; abandoned, the CacheNodes that are gone and whose caches
	// may be deleted, by disk.
	drained   map[string]bool
	abandoned map[string]string
	// applied is what nginx was given last and took, or will find when it starts.
	applied *applied
	// answered is the version that nginx's workers answer with, since when; "" while they do not.
	answered string
	since    time.Time
	// exhausted is when nginx said last that it has no connection left.
	exhausted time.Time
	refusal   *agentapi.Refusal
	// retry is the value of the pod's annotation that asks to try a refused revision again.
	retry string
	// pair is the certificate and key that clients are to see, as they were read last. Only the conductor uses it.
	pair podinfo.KeyPair
	// retrying: the last try failed for want of a disk that is not found out yet.
	retrying bool
	problem  string
	// lowered says which limits of what runs the disks cannot hold.
	lowered string
	nginx   string // nginx's own version
	// blamed counts the tries in a row that failed for a disk. Only the conductor uses it.
	blamed int
	// strange counts the checks in a row in which nginx ran something else. Only the conductor uses it.
	strange int
}

// applied is a configuration with what it was made from.
type applied struct {
	revision agentapi.Revision
	config   cache.Config
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
	revision, problem := a.wanted()
	defer func() { a.setProblem(problem) }() // once a step, as whoever reads the report in between sees no other
	if revision == nil {
		return checkInterval
	}
	a.mutex.Lock()
	if a.refusal != nil && a.refusal.Revision != revision.ID {
		a.refusal = nil // another is wanted: should this one be wanted again, it is tried again
	}
	a.mutex.Unlock()
	a.watchDisks(ctx, *revision)
	if a.isStarting() {
		return retryInterval // the first probes decide which disks nginx starts with
	}
	wait, err := checkInterval, error(nil)
	if !a.isRefused(revision.ID) {
		wait, err = a.bring(ctx, *revision)
		problem = errors.Join(problem, err)
	}
	if a.isRefused(revision.ID) {
		if good := a.lastGood(); good != nil { // the pod's facts may have changed all the same
			wait, err = a.bring(ctx, *good)
			problem = errors.Join(problem, err)
		}
	}
	a.mutex.Lock()
	a.retrying = wait < checkInterval
	a.mutex.Unlock()
	return wait
}

// wanted is the revision that the pod is to run; with an error, it may still be one to go on with.
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

// lastGood is what to go on with when the wanted revision is refused: what runs, or, in a pod that runs nothing yet, the
// stable revision, if that is another.
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
