package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// sample contains the figures of one measurement of the operator.
type sample struct {
	// Converged is the time from the operator's start to its last write, in seconds. All objects exist before the start.
	Converged float64 `json:"convergedSeconds"`
	Calls     calls   `json:"converging"`
	// CPU is the operator's processor time in seconds from its start until it is idle. Memory is its resident memory in
	// MiB at the end of the following idle period.
	CPU    float64 `json:"cpuSeconds"`
	Memory float64 `json:"residentMebibytes"`
	// Empty is the operator's resident memory in MiB when there are no CacheNodes.
	Empty float64 `json:"emptyMebibytes"`
	// Idle contains the operator's requests while it has nothing to do. IdleCPU is its processor time during this
	// period, in percent of one processor.
	Idle    calls   `json:"idle"`
	IdleCPU float64 `json:"idleCPUPercent"`
	// Restarted is the time in seconds that a restarted operator takes to check all objects. In this measurement, no
	// object needs a change.
	Restarted    float64 `json:"restartedSeconds"`
	RestartCalls calls   `json:"restart"`
	// Edited is the time in seconds from an edit of a CacheNode until the operator's first write of its StatefulSet. The
	// edit takes place while the operator is busy after another restart. EditedBusy is the time in seconds from the edit
	// until the operator is idle.
	Edited     float64 `json:"editedDuringRestartSeconds"`
	EditedBusy float64 `json:"busyAfterEditSeconds"`

	emptyCPU, restartCPU time.Duration
}

const within = 10 * time.Minute

// measure takes a sample on a new API server.
func measure(ctx context.Context, binary string, o options, dir string) (sample, error) {
	server, err := serve(dir)
	if err != nil {
		return sample{}, err
	}
	m := &measurement{binary: binary, server: server, options: o, dir: dir}
	for _, step := range []func(context.Context) error{m.empty, m.converge, m.restart, m.edit} {
		if err := step(ctx); err != nil {
			return m.sample, errors.Join(err, server.env.Stop())
		}
	}
	return m.sample, server.env.Stop()
}

type measurement struct {
	binary  string
	server  *server
	options options
	dir     string
	starts  int
	sample  sample
}

// while starts the operator, calls f, and stops the operator after f has returned.
func (m *measurement) while(f func(*process) error) error {
	m.starts++
	p, err := start(m.binary, m.server.kubeconfig, filepath.Join(m.dir, fmt.Sprintf("log-%d", m.starts)))
	if err != nil {
		return err
	}
	if err := f(p); err != nil {
		_ = p.stop()
		return err
	}
	return p.stop()
}

func (m *measurement) empty(ctx context.Context) error {
	return m.while(func(p *process) (err error) {
		if _, err = p.quiet(ctx, m.server.auditLog, within); err != nil {
			return err
		}
		if m.sample.Empty, err = p.resident(); err != nil {
			return err
		}
		m.sample.emptyCPU, err = p.cpu()
		return err
	})
}

// converge measures the first reconciliation of all objects, and then the load of the idle operator.
func (m *measurement) converge(ctx context.Context) error {
	if err := m.server.create(ctx, m.options.count); err != nil {
		return err
	}
	return m.while(func(p *process) error {
		if _, err := p.quiet(ctx, m.server.auditLog, within); err != nil {
			return err
		}
		now := time.Now()
		calls, err := m.server.audit(p.began, now)
		if err != nil {
			return err
		}
		made, err := m.server.count(ctx)
		if err != nil {
			return err
		}
		if made != m.options.count || calls.Failed > 0 {
			return fmt.Errorf("made %d of %d StatefulSets, %d requests failed", made, m.options.count, calls.Failed)
		}
		m.sample.Calls, m.sample.Converged = calls, calls.last.Sub(p.began).Seconds()
		used, err := p.cpu()
		if err != nil {
			return err
		}
		m.sample.CPU = used.Seconds()
		return m.idle(ctx, p)
	})
}

func (m *measurement) idle(ctx context.Context, p *process) error {
	began := time.Now()
	before, err := p.cpu()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(m.options.idle):
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	m.sample.IdleCPU = 100 * (after - before).Seconds() / time.Since(began).Seconds()
	if m.sample.Memory, err = p.resident(); err != nil {
		return err
	}
	m.sample.Idle, err = m.server.audit(began, time.Now())
	return err
}

// restart measures a restart of the operator when no object needs a change.
func (m *measurement) restart(ctx context.Context) error {
	return m.while(func(p *process) error {
		busy, err := p.quiet(ctx, m.server.auditLog, within)
		if err != nil {
			return err
		}
		m.sample.Restarted = busy.Sub(p.began).Seconds()
		if m.sample.restartCPU, err = p.cpu(); err != nil {
			return err
		}
		if m.sample.restartCPU -= m.sample.emptyCPU; m.sample.restartCPU <= 0 {
			return errors.New("it has looked at nothing after a restart")
		}
		if m.sample.RestartCalls, err = m.server.audit(p.began, time.Now()); err == nil && m.sample.RestartCalls.Failed > 0 {
			err = fmt.Errorf("%d requests failed after a restart", m.sample.RestartCalls.Failed)
		}
		return err
	})
}

// edit measures an edit during another restart, while the operator still has to check most objects. It edits a
// CacheNode when the operator has used a tenth of the processor time that it used in restart.
func (m *measurement) edit(ctx context.Context) error {
	return m.while(func(p *process) error {
		for deadline := time.Now().Add(within); ; {
			used, err := p.cpu()
			if err != nil {
				return err
			}
			if used > m.sample.restartCPU/10+m.sample.emptyCPU {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("after a restart it has used %s of processor time only", used)
			}
			time.Sleep(20 * time.Millisecond)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(fmt.Appendf(nil, cacheNode, name(m.options.count/2)), o); err != nil {
			return err
		}
		edited := time.Now()
		patch := []byte(`{"spec":{"replicas":2}}`)
		if err := m.server.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
		busy, err := p.quiet(ctx, m.server.auditLog, within)
		if err != nil {
			return err
		}
		at, err := m.server.patched("statefulsets", o.GetName(), edited)
		if err != nil {
			return err
		}
		m.sample.Edited, m.sample.EditedBusy = at.Sub(edited).Seconds(), busy.Sub(edited).Seconds()
		return nil
	})
}
