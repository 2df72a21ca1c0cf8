package agent

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// podState is what the agent knows about the pod. It is safe for concurrent use: its fields are read and set only
// while the mutex is held.
type podState struct {
	mutex sync.Mutex
	// began is the time at which the agent started.
	began    time.Time
	monitors map[string]*disk.Monitor
	counts   map[string]metrics.Files
	// drained contains the disks that a user has drained. abandoned maps the name of a disk to the deleted CacheNode
	// (NAMESPACE/NAME) whose cache on this disk may be deleted.
	drained   map[string]bool
	abandoned map[string]string
	// applied is the last configuration that nginx took, or that nginx will read when it starts; nil if there is none
	// yet.
	applied *applied
	// answered is the version of the configuration that nginx's workers report; "" while they do not answer. since is
	// the time at which answered last changed.
	answered string
	since    time.Time
	// exhausted is the time at which nginx last reported that it has no connection left.
	exhausted time.Time
	refusal   *agentapi.Refusal
	// retry is the value of the pod annotation that asks to retry a refused revision.
	retry string
	// retrying is true if the delay before the next step is shorter than checkInterval, for example after a disk error
	// that the disk's probes have not found yet.
	retrying bool
	problem  string
	// lowered describes the limits of the running revision that are too high for the disks.
	lowered string
	// nginx is the version of nginx's program. scripts is true if nginx has the module for scripts. noScripts is true if
	// nginx is known to lack this module. scripts and noScripts are both false while the answer is not known.
	nginx              string
	scripts, noScripts bool
	unsafe             unsafeURLs
}

func (p *podState) setLowered(text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lowered = text
}

// forget drops the refusal, so that the agent tries the revision again.
func (p *podState) forget(retry string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.retry, p.refusal = retry, nil
}

func (p *podState) isRefused(revision string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.refusal != nil && p.refusal.Revision == revision
}

func (p *podState) current() *applied {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.applied
}

func (p *podState) running() *agentapi.Revision {
	if current := p.current(); current != nil {
		return &current.revision
	}
	return nil
}

func (p *podState) hasScripts() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.scripts
}

func (p *podState) cacheFiles() map[string]metrics.Files {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.counts)
}

// states returns the states of all disks.
func (p *podState) states() map[string]disk.State {
	p.mutex.Lock()
	monitors := maps.Clone(p.monitors)
	p.mutex.Unlock()
	states := map[string]disk.State{}
	for name, monitor := range monitors {
		states[name] = monitor.State()
	}
	return states
}

func (p *podState) isDrained(name string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.drained[name]
}

// heed reads from the pod's annotations which disks are drained, and which deleted CacheNodes' caches may be deleted.
func (p *podState) heed(annotations map[string]string) {
	drained, abandoned := map[string]bool{}, map[string]string{}
	for name := range strings.SplitSeq(annotations[naming.AnnotationDrained], ",") {
		drained[name] = name != ""
	}
	for pair := range strings.SplitSeq(annotations[naming.AnnotationEmpty], ",") {
		if name, owner, ok := strings.Cut(pair, "="); ok {
			abandoned[name] = owner
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.drained, p.abandoned = drained, abandoned
}

// isUnsettled reports whether the agent must try again without waiting for an event: there is no configuration yet, a
// problem remains, or a retry is due.
func (p *podState) isUnsettled() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.applied == nil || p.problem != "" || p.retrying
}
