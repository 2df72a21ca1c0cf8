package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// report writes the status once, only if it changed, and then records in events what changed. err is the result of the
// pass.
func (r *CacheNodeReconciler) report(ctx context.Context, p *pass, err error) error {
	failure, incomplete := p.failure(err)
	before, after := p.cacheNode, p.cacheNode.DeepCopy()
	var events []status.Event
	if p.complete {
		facts := p.facts(failure, incomplete)
		if facts.Unknown() && p.unknown {
			return nil // the status stays as it was until the agents have answered
		}
		p.lookAgain(facts.LookAgain())
		after.Status = status.Of(facts)
		events, p.lasting.broken = status.Events(facts, after.Status)
	} else if failure != nil {
		after.Status = status.OfFailure(p.cacheNode, failure)
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		err := r.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(naming.FieldManager))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		p.lasting.told = after.DeepCopy()
	}
	for _, e := range events {
		r.Events.Eventf(p.cacheNode, p.podNamed(e.Pod), e.Type, e.Reason, e.Action, "%s", e.Note)
	}
	return nil
}

// catchUp gives a CacheNode the status that the last pass wrote, if the cache does not show that yet. Otherwise what
// has changed would be told in events once more, and conditions would change at a new time.
func (l *lasting) catchUp(cacheNode *v1alpha1.CacheNode) {
	if l.told == nil {
		return
	}
	order, err := resourceversion.CompareResourceVersion(cacheNode.ResourceVersion, l.told.ResourceVersion)
	if err != nil || order >= 0 {
		l.told = nil
		return
	}
	l.told.Status.DeepCopyInto(&cacheNode.Status)
}

// failure returns the error of a pass if the status is to show it, because it has lasted or will last. Most errors are
// transient: incomplete is true for those. A cache that lags behind has more time.
func (p *pass) failure(err error) (failure error, incomplete bool) {
	other := withoutStale(err)
	p.lasting.failing = began(p.lasting.failing, other != nil, p.now)
	p.lasting.late = began(p.lasting.late, err != nil, p.now)
	switch {
	case err == nil:
		return nil, false
	case apierrors.IsForbidden(other), other != nil && p.now.Sub(p.lasting.failing) >= failureAfter:
		return other, false
	case p.now.Sub(p.lasting.late) >= lateFailureAfter:
		return err, false
	}
	return nil, true
}

// began returns when a state began: at since if it lasts, now if it is new, never if it is over.
func began(since time.Time, is bool, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// facts are what the pass has found.
func (p *pass) facts(failure error, incomplete bool) status.Facts {
	f := status.Facts{
		CacheNode: p.cacheNode, Now: p.now, Began: p.began, StatefulSet: p.statefulSet, Broken: p.lasting.broken,
		Missing: p.actions.Missing, Lost: p.actions.Waiting, Evicting: p.evicting,
		Movement: p.movement, Held: p.held, Problem: p.problem, Unmet: p.unmet, TooManyVolumes: p.actions.Follow.TooMany,
		Warnings: slices.Concat(validation.Warnings(p.cacheNode), p.verbs.Problems, p.warnings),
		Failure:  failure, Incomplete: incomplete, Certificate: p.certificate,
	}
	for i := range p.pods {
		f.Pods = append(f.Pods, p.podFacts(i))
	}
	if p.plan != nil {
		f.Config = &status.Config{
			Revision: p.target.Revision.ID, Plan: *p.plan,
			Tuning: slices.Concat(p.effective.Tuning, f.FewFiles(p.effective.Spec)),
		}
	}
	f.Sharing = p.presentSharing()
	if d := p.decision; d != nil {
		f.Rollout = &status.Rollout{
			Done: d.Done, Replacing: d.Replace, Stable: d.State.Stable, Refused: d.State.Refused,
			Settled: isSettled(p.statefulSet, p.template), Remaking: p.remaking,
		}
	}
	return f
}

// presentSharing says which pods own keys; nil if each pod serves all keys. In a pass that did not get as far as
// deciding that, it is what the pods go on with.
func (p *pass) presentSharing() *fleet.Decision {
	switch {
	case p.decision != nil && p.effective.Spec.Routing.Mode == v1alpha1.RoutingSharded:
		return &p.sharing
	case p.decision != nil, p.offered.stable == nil, p.offered.sharing.Owning() == 0,
		p.offered.stable.Spec.Routing.Mode != v1alpha1.RoutingSharded:
		return nil
	}
	present := fleet.Decision{State: p.offered.sharing}
	if p.statefulSet != nil {
		present.Keep = int(ptr.Deref(p.statefulSet.Spec.Replicas, 0))
	}
	return &present
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
