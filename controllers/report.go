package controllers

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// report writes the status once, if it changed. Then it sends events about what was done and what changed. err is the
// error of the pass. problem is the reason why the spec is not accepted or does not take effect; nil if there is none.
// report completes the parameter next with what the next pass needs to know about this report, and returns it.
func (r *CacheNodeReconciler) report(
	ctx context.Context, p *finished, next lasting, problem *status.Problem, err error,
) (lasting, error) {
	failure, incomplete := next.failure(err, p.now)
	facts := p.facts()
	facts.Began, facts.Version, facts.NginxImage = r.began(), r.Cluster.Version, r.Cluster.Images.Nginx
	facts.Unmet, facts.Problem = r.references.unmet(ctx, p.cacheNode, p.storage.state), problem
	facts.Failure, facts.Incomplete = failure, incomplete
	next.untold = facts.Done
	if facts.Unknown() && p.agents.unknown {
		return next, nil // the status stays as it was until the agents have answered
	}
	p.lookAgain(facts.LookAgain())
	after := status.Of(facts)
	events, broken := status.Events(facts, after)
	next.broken = broken
	if next.written, err = writeStatus(ctx, r.Client, p.cacheNode, after, next.written); err != nil {
		return next, client.IgnoreNotFound(err)
	}
	next.untold = nil
	for _, e := range events {
		r.Events.Eventf(p.cacheNode, p.podNamed(e.Pod), e.Type, e.Reason, e.Action, "%s", e.Note)
	}
	return next, nil
}

// reportFailure handles an error of the phase observe. Such an error ends the pass. It writes the error into the status
// if the error has lasted for some time, or is sure to last.
func (r *CacheNodeReconciler) reportFailure(ctx context.Context, s scope, err error) (next lasting, _ error) {
	next = s.last
	failure, _ := next.failure(err, s.now)
	if failure == nil {
		return next, nil
	}
	next.written, err = writeStatus(ctx, r.Client, s.cacheNode, status.OfFailure(s.cacheNode, failure), next.written)
	return next, client.IgnoreNotFound(err)
}

// writeStatus writes a status if it differs from the status of the CacheNode. It returns the CacheNode with the
// status that was written last. If it writes nothing, it returns the argument written.
func writeStatus(
	ctx context.Context, c client.Client,
	before *v1alpha1.CacheNode, to v1alpha1.CacheNodeStatus, written *v1alpha1.CacheNode,
) (*v1alpha1.CacheNode, error) {
	if equality.Semantic.DeepEqual(before.Status, to) {
		return written, nil
	}
	after := before.DeepCopy()
	after.Status = to
	err := c.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(naming.FieldManager))
	if err != nil {
		return written, err
	}
	return after, nil
}

// catchUp gives a CacheNode the status that the last pass wrote, if the cache does not show that status yet. Otherwise,
// events would report the same changes again, and conditions would get a new transition time.
func (l *lasting) catchUp(cacheNode *v1alpha1.CacheNode) {
	if l.written == nil {
		return
	}
	order, err := resourceversion.CompareResourceVersion(cacheNode.ResourceVersion, l.written.ResourceVersion)
	if err != nil || order >= 0 {
		l.written = nil
		return
	}
	l.written.Status.DeepCopyInto(&cacheNode.Status)
}

// failure returns the error that the status must show: an error that has lasted for some time or is sure to last. For
// any other error, failure is nil and incomplete is true, because most errors are transient. If an error only means
// that the informer cache lags behind, the status shows it later (lateFailureAfter).
func (l *lasting) failure(err error, now time.Time) (failure error, incomplete bool) {
	other := withoutStale(err)
	l.failing = began(l.failing, other != nil, now)
	l.late = began(l.late, err != nil, now)
	switch {
	case err == nil:
		return nil, false
	case apierrors.IsForbidden(other), other != nil && now.Sub(l.failing) >= failureAfter:
		return other, false
	case now.Sub(l.late) >= lateFailureAfter:
		return err, false
	}
	return nil, true
}

// began returns the time at which a state began. The parameter is tells whether the state holds now. since is the time
// at which it began earlier, or zero. If the state is new, began returns the time now. If the state does not hold,
// began returns the zero time.
func began(since time.Time, is bool, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// facts returns what the pass found, as the input of package status.
func (p *finished) facts() status.Facts {
	follow := p.storage.actions.Follow
	f := status.Facts{
		CacheNode: p.cacheNode, Now: p.now, StatefulSet: cmp.Or(p.applied.set, p.own.statefulSet),
		Broken: p.last.broken, Missing: p.storage.actions.Missing, Lost: p.storage.actions.Waiting,
		Evicting: p.evicting, Movement: p.movement, TooManyVolumes: follow.TooMany, Certificate: p.certificate,
		Warnings: slices.Concat(validation.Warnings(p.cacheNode), storage.ReadVerbs(p.cacheNode).Problems),
		Rollout:  p.rollout, Sharing: p.shown(), Done: slices.Concat(p.last.untold, p.done),
	}
	if p.own.statefulSet != nil {
		f.Warnings = append(f.Warnings, volumeWarnings(follow)...)
	}
	for i := range p.pods {
		f.Pods = append(f.Pods, p.podFacts(&p.pods[i]))
	}
	if p.isRendered() {
		f.Config = &status.Config{
			Revision: p.target.Revision.ID, Plan: edit.Plan(p.target.Revision),
			Tuning: slices.Concat(
				p.effective.Tuning, p.leaving.tuning(p.sharing.State.Disks.Until), f.FewFiles(p.effective.Spec)),
		}
	}
	return f
}

// shown returns which pods own keys; nil if each pod serves all keys. If the pass did not decide which pods own keys,
// the result is the earlier decision that the pods still follow.
func (p *finished) shown() *fleet.Decision {
	switch {
	case p.rollout != nil && p.effective.Spec.Routing.Mode == v1alpha1.RoutingSharded:
		return &p.sharing
	case p.rollout != nil, !sharesKeys(p.offered.stable), p.offered.sharing.Owning() == 0:
		return nil
	}
	present := p.presentSharing()
	return &present
}

// podNamed returns the pod with the given name, for an event to refer to; nil if there is none.
func (p *finished) podNamed(name string) runtime.Object {
	for i := range p.pods {
		if p.pods[i].Name == name {
			return &p.pods[i]
		}
	}
	return nil
}

func (p *finished) podFacts(pod *corev1.Pod) status.Pod {
	seen := p.agents.byPod[pod.Name]
	facts := status.Pod{Pod: pod, Silent: seen.IsSilentIn(pod, p.now)}
	if p.storage.state != nil {
		facts.Mount = p.storage.state.Unmounted(pod)
	}
	if !seen.Answered.IsZero() {
		facts.Report = &seen.Report
	}
	return facts
}
