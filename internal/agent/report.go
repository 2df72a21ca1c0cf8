package agent

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

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

// refuse records that a revision is refused, and because of which routes, if that is known. The agent does not try the
// revision again until another revision is wanted or a user requests a retry.
func (a *Agent) refuse(revision agentapi.Revision, message string, routes ...string) {
	a.Log.Error("nginx refused the configuration", "revision", revision.ID, "message", message, "routes", routes)
	a.metrics.Reload(metrics.Refused)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.refusal = &agentapi.Refusal{Revision: revision.ID, Message: message, Routes: routes, Retry: a.retry}
}

func (a *Agent) took(made applied) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.refusal != nil && a.refusal.Revision == made.revision.ID {
		a.refusal = nil
	}
	a.applied = &made
	a.purger.SetRules(made.keeps)
	a.purger.SetInUse(made.used, made.generations)
	a.metrics.Share(made.share)
}

func (a *Agent) answers(version string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if version != a.answered {
		a.answered, a.since = version, a.clock.Now()
	}
	revision, _, _ := strings.Cut(version, "-")
	var sampling int32
	if a.applied != nil && a.applied.revision.Spec.Monitoring.RequestSampling != nil {
		sampling = *a.applied.revision.Spec.Monitoring.RequestSampling
	}
	a.metrics.Running(revision, sampling)
}

// Started reports whether nginx has a configuration to start with.
func (a *Agent) Started() bool { return a.current() != nil }

// Report returns the report that the operator reads.
func (a *Agent) Report() agentapi.Report {
	states := a.states()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	r := agentapi.Report{
		AgentVersion: a.Version, NginxVersion: a.nginx, Renderer: agentapi.Renderer, Since: a.since,
		Features: []string{
			agentapi.FeatureRouting, agentapi.FeatureLeaving, agentapi.FeaturePurge, agentapi.FeaturePolicies,
		},
		Refusal: a.refusal, Problem: a.problem, Lowered: a.lowered,
	}
	if a.noScripts {
		r.Features = append(r.Features, agentapi.FeatureNoScripts)
	}
	r.Unsafe = a.unsafe.since(a.clock.Now())
	done := a.purger.Done(math.MaxInt64)
	r.Purged, r.PurgeHead = done.Applied, done.Head
	for _, s := range done.Stores { // a disk may have applied rules that the pod's journal does not contain
		r.PurgeHead = max(r.PurgeHead, s.Applied)
	}
	r.Revision, _, _ = strings.Cut(a.answered, "-")
	if a.applied != nil {
		r.OpenFiles = a.applied.openFiles
	}
	if a.applied != nil && a.answered == a.applied.config.Version {
		r.FleetSerial = a.applied.fleet
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name]
		d := agentapi.DiskReport{
			Name: name, State: s.Status, Reason: s.Reason, Message: s.Message, Since: s.Since,
			NeedsNewPod: s.Reason.NeedsNewPod(), ForeignOwner: s.ForeignOwner,
			Size: s.Usage.Size, UsedPercent: usedPercent(s.Usage),
		}
		if files, known := a.counts[name]; known {
			d.CacheBytes = new(rounded(files.Bytes))
		}
		if f := s.Usage.FileSystem; f.Type != "" {
			d.FileSystem = &f
		}
		if a.drained[name] {
			d.State, d.Message = v1alpha1.DiskDrained, "drained on request"
		}
		if a.applied != nil && a.applied.config.Cached {
			d.Share = a.applied.config.Plan.Share(name)
		}
		r.Disks = append(r.Disks, d)
	}
	return r
}

// rounded keeps the first four binary digits of a number, so that estimates seldom change the report.
func rounded(n int64) int64 {
	low := max(bits.Len64(uint64(max(n, 0)))-4, 0)
	return n >> low << low
}

// usedPercent returns how much of a disk is used, rounded down to an even percentage. So a disk that fills up changes
// the report less often.
func usedPercent(u disk.Usage) int {
	if u.Size <= 0 {
		return 0
	}
	return int((u.Size-u.Free)*50/u.Size) * 2
}
