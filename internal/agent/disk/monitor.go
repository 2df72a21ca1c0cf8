package disk

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// Monitor probes one disk until its context ends. A probe that hangs blocks nothing else: it keeps its own thread, it
// counts as a failure after each timeout, and no second probe begins. The methods are safe for concurrent use.
type Monitor struct {
	// Changed is called from the monitor's goroutine when the status or the reason has changed.
	Changed func(before, after State)
	// Observed is called for each sample.
	Observed func(Sample)

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
	return &Monitor{
		prober: prober, limits: limits, state: State{Status: v1alpha1.DiskStarting}, wake: make(chan struct{}, 1),
	}
}

// State returns what is known about the disk now.
func (m *Monitor) State() State {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.state
}

// Configure changes the thresholds, and the rules of the next probe.
func (m *Monitor) Configure(limits Limits, rules Rules) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.limits = limits
	if p := m.prober; p.Rules != rules { // a running probe keeps its own rules
		m.prober = &Prober{
			Disk: p.Disk, Dir: p.Dir, NodeDir: p.NodeDir, Devices: p.Devices,
			Owner: p.Owner, Rules: rules, clearing: p.clearing,
		}
	}
}

// Wake asks for a probe soon, because something else met an error on the disk. A failed disk keeps its probe interval.
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
	var overdue <-chan time.Time // not nil while a probe runs
	var begun, ended time.Time
	begin := func() {
		begun = time.Now()
		overdue = time.After(m.timeout())
		go func() { results <- m.probe() }()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			if overdue == nil { // many errors must not fill the disk's time with probes
				next.Reset(max(confirmDelay-time.Since(ended), 0))
			}
		case <-next.C:
			if overdue == nil {
				begin()
			}
		case <-overdue:
			m.observe(Sample{
				At: time.Now(), Latency: time.Since(begun), Reason: v1alpha1.DiskSlow,
				Message: fmt.Sprintf("no answer for %s", time.Since(begun).Round(100*time.Millisecond)),
			})
			overdue = time.After(m.timeout())
		case s := <-results:
			overdue, ended = nil, time.Now()
			if s.Reason == "" && s.Latency > m.timeout() {
				s.Reason, s.Message = v1alpha1.DiskSlow, fmt.Sprintf("the probe took %s", s.Latency.Round(time.Millisecond))
			}
			next.Reset(m.observe(s))
		}
	}
}

func (m *Monitor) timeout() time.Duration {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.limits(m.state.Usage.Size).Timeout
}

func (m *Monitor) probe() Sample {
	m.mutex.Lock()
	prober, state, thresholds := m.prober, m.state, m.limits(m.state.Usage.Size)
	m.mutex.Unlock()
	if state.Status == v1alpha1.DiskFailed && state.Reason == v1alpha1.DiskFull {
		cache := filepath.Join(prober.Dir, layout.OwnFolder, cacheFolder)
		if err := trim(cache, 2*thresholds.MinFree); err != nil {
			return Sample{At: time.Now(), Reason: v1alpha1.DiskIOError, Message: err.Error()}
		}
	}
	return prober.Probe()
}

// observe updates the state with a sample and returns the delay before the next probe.
func (m *Monitor) observe(s Sample) time.Duration {
	m.mutex.Lock()
	before := m.state
	thresholds := m.limits(cmp.Or(s.Usage.Size, before.Usage.Size))
	m.state = before.Next(s, thresholds)
	after, delay := m.state, m.state.Delay(thresholds)
	m.mutex.Unlock()
	if m.Observed != nil {
		m.Observed(s)
	}
	if m.Changed != nil && (before.Status != after.Status || before.Reason != after.Reason) {
		m.Changed(before, after)
	}
	return delay
}
