package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// watchDisks starts a monitor for each disk that has no monitor. It gives the existing monitors the thresholds and
// rules of the revision.
func (c *conductor) watchDisks(ctx context.Context, revision agentapi.Revision) {
	for _, d := range revision.Spec.Disks {
		c.mutex.Lock()
		monitor, rules := c.monitors[d.Name], rules(d, c.abandoned[d.Name])
		c.mutex.Unlock()
		if monitor != nil {
			monitor.Configure(limits(d), rules)
			continue
		}
		c.watchDisk(ctx, revision, d.Name, disk.NewMonitor(&disk.Prober{
			Disk: d.Name, Dir: c.Paths.Root + layout.DiskDir(d.Name), NodeDir: c.Paths.Root + layout.RunDir,
			Devices: &c.devices, Owner: c.owner(revision, d.Name), Rules: rules,
		}, limits(d)))
	}
}

// owner describes the CacheNode as the owner of the cache on a disk, with the key that signs its marks. The key is
// empty if the operator has not created one.
func (a *Agent) owner(revision agentapi.Revision, name string) disk.Owner {
	o := disk.Owner{Namespace: revision.Namespace, Name: revision.Name, Disk: name, TookOver: func() {
		a.Log.Warn("the disk is new to this CacheNode: the cache that is on it is deleted, "+
			"because this CacheNode did not sign it", "disk", name)
	}}
	var err error
	o.Key, err = os.ReadFile(filepath.Join(a.Paths.Owner, naming.OwnerKeyKey))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.Log.Warn("the key of the disks' marks", "error", err)
	}
	if text, err := os.ReadFile(filepath.Join(a.Paths.Owner, naming.OwnerLegacyKey)); err == nil {
		o.Legacy, _ = time.Parse(time.RFC3339, string(text)) // an invalid time counts as no time
	}
	return o
}

// rules returns the rules for a disk. abandoned names a deleted CacheNode, as NAMESPACE/NAME, whose cache on the disk
// may be deleted; "" for none.
func rules(d v1alpha1.Disk, abandoned string) disk.Rules {
	r := disk.Rules{
		Own:   d.Health.Device != v1alpha1.SharedDevice,
		Empty: d.ForeignCache == v1alpha1.EmptyForeign, Abandoned: abandoned,
	}
	if d.LocalPath != nil {
		r.MountPoint = ptr.Deref(d.LocalPath.RequireMountPoint, true)
		r.Own = r.Own && r.MountPoint
	}
	return r
}

// limits returns the thresholds of the spec. If the spec sets no threshold for free space, the threshold follows from
// the size of the file system.
func limits(d v1alpha1.Disk) disk.Limits {
	return func(size int64) disk.Thresholds {
		return disk.Thresholds{
			Interval: max(effective.Duration(d.Health.Interval), 100*time.Millisecond),
			Timeout:  effective.ProbeTimeout(d), BusyRate: effective.BusyRate(d),
			Failures: int(ptr.Deref(d.Health.Failures, 2)), Successes: int(ptr.Deref(d.Health.Successes, 10)),
			MinFree: effective.EjectBelow(effective.Measured(d, size)), MinFreeInodes: int(ptr.Deref(d.Health.MinFreeInodes, 1)),
		}
	}
}

func (a *Agent) watchDisk(
	ctx context.Context, revision agentapi.Revision, name string, monitor *disk.Monitor,
) {
	a.metrics.Disk(name)
	monitor.Observed = func(s disk.Sample) { a.metrics.Probe(name, s) }
	monitor.Changed = func(before, after disk.State) {
		if now := a.clock.Now(); !before.Waits(now) && after.Waits(now) {
			a.Log.Info("a disk makes reads wait", "disk", name)
		}
		if before.Status != after.Status {
			a.Log.Info("a disk changed", "disk", name, "from", before.Status, "to", after.Status,
				"reason", after.Reason, "message", after.Message)
			if after.Status == v1alpha1.DiskHealthy {
				a.metrics.SetLoaded(name, false) // nginx reads its index again
			}
		}
		a.Wake()
	}
	a.mutex.Lock()
	a.monitors[name] = monitor
	a.mutex.Unlock()
	a.purgeDisk(ctx, revision, name, monitor)
	a.background.Go(func() { monitor.Run(ctx) })
	a.background.Go(func() { a.estimate(ctx, name, monitor) })
}

// estimateInterval is the time between two estimates of a disk's cache files. An agent that has just started begins
// with firstEstimateInterval, and doubles the interval until it reaches estimateInterval.
const (
	estimateInterval      = time.Minute
	firstEstimateInterval = 2 * time.Second
)

// estimate estimates the cache files of a disk at intervals. It blocks while the disk hangs, so it runs in its own
// goroutine.
func (a *Agent) estimate(ctx context.Context, name string, monitor *disk.Monitor) {
	for interval := firstEstimateInterval; ; interval = min(2*interval, estimateInterval) {
		if monitor.State().Status == v1alpha1.DiskHealthy {
			if files, err := metrics.Estimate(a.Paths.Root + layout.CacheDir(name)); err == nil {
				a.mutex.Lock()
				a.counts[name] = files
				a.mutex.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-a.clock.After(interval):
		}
	}
}

// unused returns the names of the disks that nginx must not use, sorted. These are the unhealthy disks, the drained
// disks, and the disks that have missed purges and may still contain purged objects.
func (a *Agent) unused() []string {
	var unused []string
	for name, s := range a.states() {
		if s.Status != v1alpha1.DiskHealthy || a.isDrained(name) || !a.purger.IsCurrent(name) {
			unused = append(unused, name)
		}
	}
	slices.Sort(unused)
	return unused
}

// waits reports whether any disk makes reads wait, or did so recently; see [disk.State.Waits].
func (a *Agent) waits() bool {
	now := a.clock.Now()
	for _, s := range a.states() {
		if s.Waits(now) {
			return true
		}
	}
	return false
}

func (a *Agent) isStarting() bool {
	for _, s := range a.states() {
		if s.Status == v1alpha1.DiskStarting {
			return true
		}
	}
	return a.waitsForPurges()
}

// Request implements nginxlog.Handler.
func (a *Agent) Request(r nginxlog.Request) { a.metrics.Request(r) }

// Error implements nginxlog.Handler. A failure on a disk starts a probe at once. Error passes a line of level emerg
// to the reload that waits for such a line. If a line reports that nginx has no connection left, Error stores the
// time for [Agent.Ready].
func (a *Agent) Error(e nginxlog.Error) {
	a.metrics.Error(e)
	if e.Level == "emerg" {
		a.Nginx.Emergency(e.Text)
	}
	if e.Event == nginxlog.Exhausted {
		a.mutex.Lock()
		a.exhausted = a.clock.Now()
		a.mutex.Unlock()
	}
	if e.Event != nginxlog.Failure {
		return
	}
	a.mutex.Lock()
	monitor := a.monitors[e.Disk]
	a.mutex.Unlock()
	if monitor != nil {
		monitor.Wake()
	}
}
