package controllers

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// conditionList collects conditions about one generation of the spec.
type conditionList struct {
	generation int64
	items      []metav1.Condition
}

func (l *conditionList) set(kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	l.items = append(l.items, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: l.generation,
	})
}

// conditions is pure: it says what a pass found in the terms of the API. The cases it must tell apart: the spec is
// refused while the old pods go on; pods are on their way; pods are missing though nothing is on its way.
func conditions(s *scope, want int32) []metav1.Condition {
	l := &conditionList{generation: s.node.Generation}
	ready := s.node.Status.ReadyReplicas
	allReady := areReady(s, ready, want)
	refusal := refusalOf(s)
	progressing := s.problem == nil && s.failure == nil && refusal == nil && isProgressing(s, allReady)

	l.accepted(s)
	l.available(ready, want)
	l.progressing(s, progressing, want)
	pods := strings.Join(append([]string{fmt.Sprintf("%d of %d pods are ready", ready, want)}, heldUpPods(s)...), "; ")
	switch {
	case s.failure != nil:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonApplyFailed, s.failure.Error())
	case s.loss != "":
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonNodeLost, s.loss)
	case refusal != nil:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonConfigRefused, refusal.text())
	case !progressing && s.statefulSet != nil && !allReady:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonPodsNotReady, pods)
	default:
		l.degraded(s)
	}
	switch {
	case s.problem != nil:
		l.notAccepted(s.problem)
	case refusal != nil:
		l.set(v1alpha1.ConditionReady, false, v1alpha1.ReasonConfigRefused, "the pods go on with revision "+s.decision.State.Stable)
		l.set(v1alpha1.ConditionStalled, true, v1alpha1.ReasonConfigRefused, refusal.text())
		l.set(v1alpha1.ConditionReconciling, false, v1alpha1.ReasonConfigRefused, "the spec must be edited")
	case s.failure != nil:
		l.waiting(v1alpha1.ReasonApplyFailed, "the operator may not write an object; it is tried again")
	case progressing:
		l.waiting(v1alpha1.ReasonRollingOut, pods)
	case !allReady:
		l.waiting(v1alpha1.ReasonPodsNotReady, pods)
	default:
		l.set(v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, pods+" and run what the spec asks for")
		l.set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonAsExpected, "nothing is wrong")
		l.set(v1alpha1.ConditionReconciling, false, v1alpha1.ReasonReady, "nothing is to do")
	}
	return l.items
}

func (l *conditionList) accepted(s *scope) {
	if s.problem == nil || s.problem.accepted {
		l.set(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, acceptance(s))
		return
	}
	l.set(v1alpha1.ConditionAccepted, false, s.problem.reason, s.problem.message)
}

func (l *conditionList) progressing(s *scope, is bool, want int32) {
	switch {
	case is:
		message := fmt.Sprintf("revision %s: %d of %d pods run it, %d pods are ready", s.wanted.ID, running(s), want, s.node.Status.ReadyReplicas)
		if s.movement != nil {
			message += "; " + describeMovement(s.movement)
		}
		if s.evicting != "" {
			message += "; " + s.evicting
		}
		l.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, message)
	case s.problem != nil && s.problem.accepted:
		l.set(v1alpha1.ConditionProgressing, true, s.problem.reason, s.problem.message)
	case s.problem != nil:
		l.set(v1alpha1.ConditionProgressing, false, s.problem.reason, "the spec is not accepted: nothing is rolled out")
	case s.failure != nil:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonApplyFailed, "the operator may not write an object")
	case refusalOf(s) != nil:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonConfigRefused, "revision "+s.wanted.ID+" was rolled back")
	default:
		l.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolledOut, "every pod runs revision "+s.wanted.ID)
	}
}

func (l *conditionList) available(ready, want int32) {
	switch {
	case ready > 0:
		l.set(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonPodsReady, "at least one pod is ready")
	case want == 0:
		l.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonScaledToZero, "spec.replicas is 0")
	default:
		l.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonNoPodReady, "no pod is ready")
	}
}

// notAccepted: a person must edit the spec, or what it refers to has yet to come.
func (l *conditionList) notAccepted(p *problem) {
	if !p.stalled {
		l.waiting(p.reason, p.message)
		return
	}
	l.set(v1alpha1.ConditionReady, false, p.reason, "the spec is not accepted; the pods go on with what was accepted last")
	l.set(v1alpha1.ConditionStalled, true, p.reason, p.message)
	l.set(v1alpha1.ConditionReconciling, false, p.reason, "the spec must be edited")
}

// waiting: not there yet, but it will be without an edit of the spec.
func (l *conditionList) waiting(reason, message string) {
	l.set(v1alpha1.ConditionReady, false, reason, message)
	l.set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonAsExpected, "no edit of the spec is needed")
	l.set(v1alpha1.ConditionReconciling, true, reason, message)
}

// acceptance warns of what is valid but unwise.
func acceptance(s *scope) string {
	return strings.Join(slices.Concat([]string{"the spec is valid"}, validation.Warnings(s.node), s.verbs.Problems, s.warnings), "; ")
}

// refused is a refusal in the words of conditions.
type refused rollout.Refusal

func (r *refused) text() string {
	return fmt.Sprintf("%s refused revision %s, which was rolled back: %s", r.Pod, r.Revision, r.Message)
}

// refusalOf is that of the wanted revision; nil if it was not refused.
func refusalOf(s *scope) *refused {
	if s.decision == nil {
		return nil
	}
	return (*refused)(s.decision.State.Refused)
}

// degraded tells of disks and agents: nothing else is wrong.
func (l *conditionList) degraded(s *scope) {
	disks, silent, missing := failedDisks(s), silentAgents(s), missingDisks(s)
	if s.evicting != "" && s.decision != nil && s.decision.Done && s.decision.Replace == "" {
		disks = append([]string{s.evicting}, disks...)
	}
	switch {
	case len(missing) > 0:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonDiskMissing, listed(append(missing, disks...)))
	case len(disks) > 0:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonDiskFailed, listed(disks))
	case len(loweredLimits(s)) > 0:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonLimitsLowered, listed(loweredLimits(s)))
	case len(silent) > 0:
		l.set(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonAgentUnreachable, "no answer from the agents of "+listed(silent))
	default:
		l.set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsExpected, "nothing is wrong")
	}
}

// heldUpPods are the pods that do not start, with the reasons; those with the same one together.
func heldUpPods(s *scope) []string {
	var reasons, list []string
	pods := map[string][]string{}
	for i := range s.pods {
		name := s.pods[i].Name
		if why := s.heldUp[name]; why != "" {
			if pods[why] == nil {
				reasons = append(reasons, why)
			}
			pods[why] = append(pods[why], name)
		}
	}
	for _, why := range reasons {
		list = append(list, listedBy(pods[why], ", ")+": "+why)
	}
	if len(list) == 0 {
		return nil
	}
	return []string{listed(list)}
}

// listed is a list of which a condition names the first few.
func listed(items []string) string { return listedBy(items, "; ") }

func listedBy(items []string, between string) string {
	const most = 5
	if more := len(items) - most; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(items[:most], between), between, more)
	}
	return strings.Join(items, between)
}

// areReady asks the StatefulSet and the pods: their caches are not of one moment.
func areReady(s *scope, ready, want int32) bool {
	return s.statefulSet != nil && ready == want && !slices.ContainsFunc(s.pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp.IsZero() && !isReady(&p)
	})
}

// isProgressing is true while the StatefulSet controller makes, replaces or removes pods, or pods have yet to take a
// revision, and from then on until all are ready. Pods that become unready later, with nothing under way, are no progress.
func isProgressing(s *scope, allReady bool) bool {
	if s.remaking || (s.template.InputHash != "" && !isSettled(s.statefulSet, s.template)) {
		return true
	}
	if !rolledOut(s.statefulSet) || s.decision == nil || !s.decision.Done || s.decision.Replace != "" {
		return true
	}
	old := meta.FindStatusCondition(s.node.Status.Conditions, v1alpha1.ConditionProgressing)
	return !allReady && (old == nil || old.Status == metav1.ConditionTrue)
}

// rolledOut is true when the StatefulSet controller has seen the wanted template and every pod there is was made from it,
// none too many and none too few. They need not be ready.
func rolledOut(set *appsv1.StatefulSet) bool {
	if set == nil || set.Status.ObservedGeneration < set.Generation {
		return false
	}
	want := ptr.Deref(set.Spec.Replicas, 1)
	return set.Status.Replicas == want && updated(set) == want
}

// running counts the pods that run the wanted revision.
func running(s *scope) int {
	n := 0
	for i := range s.pods {
		if s.observations[s.pods[i].Name].Report.Revision == s.wanted.ID {
			n++
		}
	}
	return n
}

// updated counts the pods of the wanted template; none while the StatefulSet controller has not seen it.
func updated(set *appsv1.StatefulSet) int32 {
	if set == nil || set.Status.ObservedGeneration < set.Generation {
		return 0
	}
	return set.Status.UpdatedReplicas
}
