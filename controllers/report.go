package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// report writes the status once, only if it changed, and then records in events what changed. err is the result of the
// pass.
func (r *CacheNodeReconciler) report(ctx context.Context, p *pass, err error) error {
	facts := p.facts(err)
	if facts.Unknown() && p.unknown {
		return nil // the status stays as it was until the agents have answered
	}
	p.lookAgain(facts.LookAgain())
	before, after := p.cacheNode, p.cacheNode.DeepCopy()
	after.Status = status.Of(facts)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(naming.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, e := range status.Events(before.Status, after.Status, p.held) {
		r.Events.Eventf(p.cacheNode, p.podNamed(e.Pod), e.Type, e.Reason, e.Action, "%s", e.Note)
	}
	return nil
}

// facts are what the pass has found. They include an error only if it has lasted or will last, because most errors are
// transient.
func (p *pass) facts(err error) status.Facts {
	f := status.Facts{
		CacheNode: p.cacheNode, Now: p.now, Began: p.began, StatefulSet: p.statefulSet,
		Missing: p.actions.Missing, Lost: p.actions.Waiting, Evicting: p.evicting,
		Movement: p.movement, Held: p.held, Problem: p.problem, Unmet: p.unmet,
		Warnings: slices.Concat(validation.Warnings(p.cacheNode), p.verbs.Problems, p.warnings),
	}
	lasts := !p.lasting.failing.IsZero() && p.now.Sub(p.lasting.failing) >= failureAfter
	switch {
	case err == nil:
		p.lasting.failing = time.Time{}
	case apierrors.IsForbidden(err) || (lasts && !errors.Is(err, apply.ErrStale)):
		f.Failure = err
	default:
		f.Incomplete = true
	}
	if err != nil && p.lasting.failing.IsZero() {
		p.lasting.failing = p.now
	}
	for i := range p.pods {
		f.Pods = append(f.Pods, p.podFacts(i))
	}
	if p.plan != nil {
		f.Config = &status.Config{Revision: p.target.Revision.ID, Plan: *p.plan, Tuning: p.effective.Tuning}
	}
	if d := p.decision; d != nil {
		f.Rollout = &status.Rollout{
			Done: d.Done, Replacing: d.Replace, Stable: d.State.Stable, Refused: d.State.Refused,
			Settled: isSettled(p.statefulSet, p.template), Remaking: p.remaking,
		}
	}
	return f
}

// podNamed returns the pod with a name, for an event to refer to; nil if there is none.
func (p *pass) podNamed(name string) runtime.Object {
	for i := range p.pods {
		if p.pods[i].Name == name {
			return &p.pods[i]
		}
	}
	return nil
}

func (p *pass) podFacts(i int) status.Pod {
	pod := &p.pods[i]
	seen := p.agents[pod.Name]
	facts := status.Pod{Pod: pod, Silent: seen.isSilentIn(pod, p.now)}
	if p.storage != nil {
		facts.Mount = p.storage.Unmounted(pod)
	}
	if !seen.Answered.IsZero() {
		facts.Report = &seen.Report
	}
	return facts
}
