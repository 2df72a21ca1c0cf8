package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// report writes the status, once and only if it changed, and then tells in events what changed.
func (r *CacheNodeReconciler) report(ctx context.Context, s *scope) error {
	if s.unknown && s.problem == nil && s.node.Status.ObservedGeneration > 0 {
		return nil // what was told stands until the pods' agents have been asked
	}
	before := s.node.DeepCopy()
	setStatus(s)
	if equality.Semantic.DeepEqual(before.Status, s.node.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, s.node, client.MergeFrom(before), client.FieldOwner(naming.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	events := changes(before.Status.Conditions, s.node.Status.Conditions)
	events = append(events, movementChange(before.Status.KeyMovement, s.node.Status.KeyMovement, s.held)...)
	for _, e := range append(events, diskChanges(before.Status.Pods, s.node.Status.Pods)...) {
		r.Events.Eventf(s.node, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
	return nil
}

// setStatus is pure: from what the pass found to the status.
func setStatus(s *scope) {
	status := &s.node.Status
	status.Selector = labels.SelectorFromSet(naming.PodSelector(s.node.Name)).String()
	status.Replicas, status.ReadyReplicas = countPods(s)
	want := ptr.Deref(s.node.Spec.Replicas, 1)
	status.ReadyOfReplicas = fmt.Sprintf("%d/%d", status.ReadyReplicas, want)
	if s.plan != nil {
		status.ConfigRevision = s.wanted.ID
		status.DiskCount = int32(len(s.plan.Disks())) //nolint:gosec // at most 32
		status.Size = totalSize(s.node.Spec.Disks, want)
		status.Disks = diskStatuses(s)
		status.Tuning = s.choices
	}
	status.Pods = podStatuses(s)
	if s.plan != nil {
		status.KeyMovement = s.movement
	}
	if s.decision != nil {
		status.Refusal = nil
		if r := s.decision.State.Refused; r != nil {
			status.Refusal = &v1alpha1.Refusal{Revision: r.Revision, Pod: r.Pod, Message: truncated(r.Message, 2048)}
		}
	}
	status.ObservedGeneration = s.node.Generation
	for _, condition := range conditions(s, want) {
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// countPods takes the StatefulSet controller's word or, while it has not looked at a StatefulSet that was made anew, counts.
func countPods(s *scope) (all, ready int32) {
	if s.statefulSet != nil && s.statefulSet.Status.ObservedGeneration > 0 {
		return s.statefulSet.Status.Replicas, s.statefulSet.Status.ReadyReplicas
	}
	for i := range s.pods {
		all++
		if isReady(&s.pods[i]) {
			ready++
		}
	}
	return all, ready
}

func totalSize(disks []v1alpha1.Disk, replicas int32) string {
	sum := resource.NewQuantity(0, resource.BinarySI)
	for range replicas {
		for _, d := range disks {
			sum.Add(d.Size)
		}
	}
	return sum.String()
}

// change is a condition's change in the form of an event.
type change struct{ kind, reason, action, note string }

// changes tells what changed between two sets of conditions: what was not accepted, what began, ended or broke.
func changes(before, after []metav1.Condition) []change {
	var list []change
	for _, condition := range after {
		old := meta.FindStatusCondition(before, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		bad := false
		switch condition.Type {
		case v1alpha1.ConditionAccepted:
			bad = condition.Status == "False"
		case v1alpha1.ConditionDegraded:
			bad = condition.Status == "True"
			if condition.Reason == v1alpha1.ReasonDiskFailed || condition.Reason == v1alpha1.ReasonDiskMissing {
				continue // diskChanges and the release of the claim tell of each disk
			}
		case v1alpha1.ConditionProgressing:
			if condition.Status == "False" && condition.Reason != v1alpha1.ReasonRolledOut {
				continue // Accepted or Degraded tells why
			}
		default:
			continue // these follow from the others
		}
		if old == nil && !bad && (condition.Status == "False" || condition.Type == v1alpha1.ConditionAccepted) {
			continue // it never was otherwise
		}
		kind := corev1.EventTypeNormal
		if bad {
			kind = corev1.EventTypeWarning
		}
		list = append(list, change{kind: kind, reason: condition.Reason, action: "Reconcile", note: condition.Message})
	}
	return list
}
