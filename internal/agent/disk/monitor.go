package disk

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// Monitor probes one disk until its context ends. A probe that hangs blocks only its own thread. Each time that the
// timeout passes, such a probe counts as another failure, unless the disk is only busy. The next probe starts only
// after the probe that hangs has ended. If the context ends during a probe that hangs, the probe lasts until the disk
// answers. The methods are safe for concurrent use.
type Monitor struct {
	// Changed is called from the monitor's goroutine when the status or the reason has changed, or when the disk begins
	// to make reads wait.
	Changed func(before, after State)
	// Observed is called for each sample.
	Observed func(Sample)

	// sample runs one probe, and calls hasRead after the probe's reads. look reads the counts of the disk's device.
	sample func(ctx context.Context, hasRead func()) Sample
	look   func() look
	mutex  sync.Mutex
	prober *Prober
	limits Limits
	state  State
	wake   chan struct{}
}

// NewMonitor returns a monitor that does nothing until Run.
func NewMonitor(prober *Prober, limits Limits) *Monitor {
	if prober.clearing == nil {
		prober.clearing = newClearing()
	}
	if prober.device == nil {
		prober.device = &atomic.Uint64{}
	}
	m := &Monitor{
		prober: prober, limits: limits, state: State{Status: v1alpha1.DiskStarting}, wake: make(chan struct{}, 1),
	}
	m.sample, m.look = m.probe, m.lookAtDevice
	return m
}

// State returns the current state of the disk.
func (m *Monitor) State() State {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.state
}

// Configure sets the thresholds, and the rules for the next probe.
func (m *Monitor) Configure(limits Limits, rules Rules) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.limits = limits
	if p := m.prober; p.Rules != rules { // a running probe keeps its own rules
		m.prober = &Prober{
			Disk: p.Disk, Dir: p.Dir, NodeDir: p.NodeDir, Devices: p.Devices,
			Owner: p.Owner, Rules: rules, clearing: p.clearing, device: p.device,
		}
	}
}

// Wake requests a probe soon, because nginx has met an error on the disk. It does nothing for a failed disk, which
// keeps its probe interval.
func (m *Monitor) Wake() {
	if m.State().Status == v1alpha1.DiskFailed {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run probes until the context ends.
func (m *Monitor) Run(ctx context.Context) {
	results := make(chan Sample, 1)
	next := time.NewTimer(0)
	defer next.Stop()
	var late, overdue <-chan time.Time // overdue is not nil while a probe runs
	var hasRead chan struct{}
	var begun, ended time.Time
	var early <-chan time.Time // fires when it is time for the first look at the device
	var seen watch
	hangs := func() bool {
		t := m.thresholds()
		if m.State().Status == v1alpha1.DiskFailed { // nginx does not use a failed disk, so a probe of it should be fast
			return true
		}
		return seen.hangs(m.look(), hasRead != nil, t.Timeout/2, t.BusyRate)
	}
	begin := func() {
		begun, hasRead = time.Now(), make(chan struct{})
		timeout := m.thresholds().Timeout
		seen, early, overdue = watch{begun: begun}, time.After(timeout/2), time.After(timeout)
		if m.State().Status != v1alpha1.DiskFailed { // nginx does not read from a failed disk
			late = time.After(lateRead)
		}
		go func(read chan struct{}) { results <- m.sample(ctx, func() { close(read) }) }(hasRead)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			if overdue == nil { // many errors must not lead to probes without a pause
				next.Reset(max(confirmDelay-time.Since(ended), 0))
			}
		case <-next.C:
			if overdue == nil {
				begin()
			}
		case <-hasRead:
			late, hasRead = nil, nil
		case now := <-late:
			m.update(func(s State) State {
				s.waited = now
				return s
			})
		case <-early:
			seen.last = m.look()
		case <-overdue:
			overdue = time.After(nextTimeout(m.thresholds().Timeout, time.Since(begun)))
			if hangs() {
				m.observe(Sample{
					At: time.Now(), Latency: time.Since(begun), Reason: v1alpha1.DiskSlow,
					Message: fmt.Sprintf("no answer for %s", time.Since(begun).Round(100*time.Millisecond)),
				})
			}
		case s := <-results:
			if s.Reason == "" && s.Latency > m.thresholds().Timeout && hangs() {
				s.Reason, s.Message = v1alpha1.DiskSlow, fmt.Sprintf("the probe took %s", s.Latency.Round(time.Millisecond))
			}
			late, early, hasRead, overdue, ended = nil, nil, nil, nil, time.Now()
			next.Reset(m.observe(s))
		}
	}
}

// nextTimeout returns the time until a running probe is judged again: its timeout, or the rest of busyPatience if
// that is shorter.
func nextTimeout(timeout, took time.Duration) time.Duration {
	if left := busyPatience - took; left > 0 {
		return min(timeout, left)
	}
	return timeout
}

func (m *Monitor) thresholds() Thresholds {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.limits(m.state.Usage.Size)
}

func (m *Monitor) probe(ctx context.Context, hasRead func()) Sample {
	m.mutex.Lock()
	prober, state, thresholds := m.prober, m.state, m.limits(m.state.Usage.Size)
	m.mutex.Unlock()
	if state.Status == v1alpha1.DiskFailed && state.Reason == v1alpha1.DiskFull {
		cache := filepath.Join(prober.Dir, layout.OwnFolder, cacheFolder)
		if err := trim(ctx, cache, 2*thresholds.MinFree); err != nil {
			return Sample{At: time.Now(), Reason: v1alpha1.DiskIOError, Message: err.Error()}
		}
	}
	return prober.Probe(ctx, hasRead)
}

func (m *Monitor) lookAtDevice() look {
	m.mutex.Lock()
	device := m.prober.device
	m.mutex.Unlock()
	return lookAt(device.Load())
}

// observe updates the state with a sample and returns the delay before the next probe.
func (m *Monitor) observe(s Sample) time.Duration {
	var thresholds Thresholds
	after := m.update(func(before State) State {
		thresholds = m.limits(cmp.Or(s.Usage.Size, before.Usage.Size))
		return before.Next(s, thresholds)
	})
	if m.Observed != nil {
		m.Observed(s)
	}
	return after.Delay(thresholds)
}

// update changes the state. It calls Changed if the status or the reason has changed, or if the disk begins to make
// reads wait.
func (m *Monitor) update(next func(State) State) State {
	m.mutex.Lock()
	before := m.state
	after := next(before)
	m.state = after
	m.mutex.Unlock()
	now := time.Now()
	if m.Changed != nil && (before.Status != after.Status || before.Reason != after.Reason ||
		!before.Waits(now) && after.Waits(now)) {
		m.Changed(before, after)
	}
	return after
}
