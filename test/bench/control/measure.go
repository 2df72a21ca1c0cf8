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

// sample is one measurement of one operator.
type sample struct {
	// Converged is the time from the operator's start to its last write, in seconds, with all objects there before it.
	Converged float64 `json:"convergedSeconds"`
	Calls     calls   `json:"converging"`
	// CPU is processor seconds until then, Memory MiB resident afterwards.
	CPU    float64 `json:"cpuSeconds"`
	Memory float64 `json:"residentMebibytes"`
	// Empty is MiB resident without any object.
	Empty float64 `json:"emptyMebibytes"`
	// Idle are the calls, and IdleCPU the share of one processor in percent, while nothing happens.
	Idle    calls   `json:"idle"`
	IdleCPU float64 `json:"idleCPUPercent"`
	// Restarted is the time from a start with everything in order until it had looked at all, in seconds.
	Restarted    float64 `json:"restartedSeconds"`
	RestartCalls calls   `json:"restart"`
	// Edited is the time from an edit while it was busy after another such start to the first write for it, EditedBusy how
	// much longer it was busy, in seconds.
	Edited     float64 `json:"editedDuringRestartSeconds"`
	EditedBusy float64 `json:"busyAfterEditSeconds"`

	emptyCPU, restartCPU time.Duration
}

const within = 10 * time.Minute

// measure takes a sample on an API server of its own.
func measure(ctx context.Context, s subject, o options, dir string) (sample, error) {
	server, err := serve(dir, s.crds)
	if err != nil {
		return sample{}, err
	}
	m := &measurement{subject: s, server: server, options: o, dir: dir}
	for _, step := range []func(context.Context) error{m.empty, m.converge, m.restart, m.edit} {
		if err := step(ctx); err != nil {
			return m.sample, errors.Join(err, server.env.Stop())
		}
	}
	return m.sample, server.env.Stop()
}

type measurement struct {
	subject subject
	server  *server
	options options
	dir     string
	starts  int
	sample  sample
}

// while runs the operator for as long as f does.
func (m *measurement) while(f func(*process) error) error {
	m.starts++
	p, err := m.subject.start(m.server.kubeconfig, filepath.Join(m.dir, fmt.Sprintf("log-%d", m.starts)))
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

// converge has all objects reconciled for the first time, and then looks at the operator while nothing happens.
func (m *measurement) converge(ctx context.Context) error {
	if err := m.server.create(ctx, m.subject.object, m.options.count); err != nil {
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
		made, err := m.server.count(ctx, m.subject.children)
		if err != nil {
			return err
		}
		if made != m.options.count || calls.Failed > 0 {
			return fmt.Errorf("made %d of %d %s, %d requests failed", made, m.options.count, m.subject.children, calls.Failed)
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

// restart starts the operator with everything in order.
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

// edit changes an object while the operator, which has just started, has all others to look at: when it has used a tenth of
// the processor time that it used after the restart before.
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
		if err := yaml.Unmarshal(fmt.Appendf(nil, m.subject.object, name(m.options.count/2)), o); err != nil {
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
		at, err := m.server.patched(m.subject.children, o.GetName(), edited)
		if err != nil {
			return err
		}
		m.sample.Edited, m.sample.EditedBusy = at.Sub(edited).Seconds(), busy.Sub(edited).Seconds()
		return nil
	})
}
