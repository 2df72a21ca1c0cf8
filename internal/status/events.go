package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Event is a change that is reported by a Kubernetes event on the CacheNode.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason, Action and Note are the fields of the Kubernetes event. Kubernetes merges events that differ only in the
	// note. So the action of an event for a disk contains the name of the disk.
	Reason, Action, Note string
	// Pod is the pod to which the event also refers, besides the CacheNode; "" for none.
	Pod string
}

// Disks is a set of disks. Each item names a pod and a disk of this pod.
type Disks = sets.Set[storage.PodDisk]

// Events returns the events for what the operator did and for what changed since the previous status. It also returns
// the value of [Facts].Broken for the next pass: the broken disks for which no event has reported the recovery yet.
func Events(f Facts, after v1alpha1.CacheNodeStatus) ([]Event, Disks) {
	before := f.CacheNode.Status
	disks, broken := f.diskEvents(before.Pods, after.Pods)
	held := f.Problem != nil && f.Problem.Reason == v1alpha1.ReasonKeyMovement
	return slices.Concat(
		f.Done,
		conditionEvents(before.Conditions, after.Conditions),
		movementEvents(before.KeyMovement, after.KeyMovement, held),
		disks,
	), broken
}

// conditionEvents returns an event for each condition whose status or reason has changed and for which isWorthAnEvent
// returns true.
func conditionEvents(before, after []metav1.Condition) []Event {
	var list []Event
	for _, condition := range after {
		old := meta.FindStatusCondition(before, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		bad, isWorth := isWorthAnEvent(condition)
		if !isWorth {
			continue
		}
		if old == nil && !bad && (condition.Status == metav1.ConditionFalse || condition.Type == v1alpha1.ConditionAccepted) {
			continue // the first status is not a change
		}
		kind := corev1.EventTypeNormal
		if bad {
			kind = corev1.EventTypeWarning
		}
		list = append(list, Event{Type: kind, Reason: condition.Reason, Action: "Reconcile", Note: condition.Message})
	}
	return list
}

// isWorthAnEvent returns true as its second result if an event must report the change of a condition. bad is true if
// this event is a warning.
func isWorthAnEvent(c metav1.Condition) (bad, is bool) {
	switch c.Type {
	case v1alpha1.ConditionAccepted:
		return c.Status == metav1.ConditionFalse, true
	case v1alpha1.ConditionDegraded: // other events report each failed or missing disk
		return c.Status == metav1.ConditionTrue,
			c.Reason != v1alpha1.ReasonDiskFailed && c.Reason != v1alpha1.ReasonDiskMissing
	case v1alpha1.ConditionEvictionsWait: // with other reasons, no eviction waits
		return false, c.Reason == v1alpha1.ReasonHandingOver || c.Reason == v1alpha1.ReasonHandedOver
	case v1alpha1.ConditionProgressing: // in other cases, Accepted or Degraded reports the reason
		return false, c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonRolledOut
	}
	return false, false // the other conditions depend on the conditions above
}

// movementEvents returns the event for an edit that begins to move keys, or that waits until a user acknowledges it.
func movementEvents(before, after *v1alpha1.KeyMovement, held bool) []Event {
	if after == nil || (before != nil && before.Name == after.Name) {
		return nil
	}
	note := DescribeMovement(after)
	if held {
		note += "; it waits to be acknowledged"
	}
	return []Event{{
		Type: corev1.EventTypeNormal, Reason: "KeyMovement", Action: "Rollout",
		Note: strings.ToUpper(note[:1]) + note[1:],
	}}
}

// diskEvents returns the events for disks that failed, and for broken disks that an agent now reports as healthy. A
// broken disk stays in the returned set until an agent reports it as healthy. Until then, the disk may be drained, or
// its pod may be starting.
func (f Facts) diskEvents(before, after []v1alpha1.PodStatus) ([]Event, Disks) {
	was, is := failures(before), failures(after)
	broken := f.Broken.Union(sets.KeySet(was)).Union(sets.KeySet(is))
	var list []Event
	for disk, d := range is {
		if _, known := was[disk]; !known {
			list = append(list, Event{
				Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonDiskFailed, Action: "Observe-" + disk.Disk, Pod: disk.Pod,
				Note: fmt.Sprintf("%s of %s is out of use: %s: %s", disk.Disk, disk.Pod, d.Reason, d.Message),
			})
		}
	}
	for _, p := range f.Pods {
		for _, d := range p.disks() {
			disk := storage.PodDisk{Pod: p.Name, Disk: d.Name}
			if d.State != v1alpha1.DiskHealthy || !broken.Has(disk) {
				continue
			}
			broken.Delete(disk)
			list = append(list, Event{
				Type: corev1.EventTypeNormal, Reason: "DiskHealthy", Action: "Observe-" + disk.Disk, Pod: disk.Pod,
				Note: fmt.Sprintf("%s of %s is in use again", disk.Disk, disk.Pod),
			})
		}
	}
	slices.SortFunc(list, func(a, b Event) int { return strings.Compare(a.Note, b.Note) })
	return list, broken.Intersection(f.wantedDisks())
}

func (f Facts) wantedDisks() Disks {
	wanted := Disks{}
	for ordinal := range int(f.replicas()) {
		for _, d := range f.CacheNode.Spec.Disks {
			wanted.Insert(storage.PodDisk{Pod: naming.Pod(f.CacheNode.Name, ordinal), Disk: d.Name})
		}
	}
	return wanted
}

// failures returns the disks that the status shows as failed.
func failures(pods []v1alpha1.PodStatus) map[storage.PodDisk]v1alpha1.PodDiskStatus {
	disks := map[storage.PodDisk]v1alpha1.PodDiskStatus{}
	for _, p := range pods {
		for _, d := range p.Disks {
			if d.State == string(v1alpha1.DiskFailed) {
				disks[storage.PodDisk{Pod: p.Name, Disk: d.Name}] = d
			}
		}
	}
	return disks
}
