package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Event is a change that is worth an event on the CacheNode.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason, Action and Note are those of a Kubernetes event. Kubernetes takes events that differ only in the note for
	// one event, so the action of an event about a disk names the disk.
	Reason, Action, Note string
	// Pod is the pod that the event is about besides the CacheNode; "" for none.
	Pod string
}

// Events returns the events about what changed between two statuses. held is true if a movement waits to be
// acknowledged.
func Events(before, after v1alpha1.CacheNodeStatus, held bool) []Event {
	return slices.Concat(
		conditionEvents(before.Conditions, after.Conditions),
		movementEvents(before.KeyMovement, after.KeyMovement, held),
		diskEvents(before.Pods, after.Pods),
	)
}

// conditionEvents returns the events about a spec that was not accepted, and about what began, ended or broke.
func conditionEvents(before, after []metav1.Condition) []Event {
	var list []Event
	for _, condition := range after {
		old := meta.FindStatusCondition(before, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		bad := false
		switch condition.Type {
		case v1alpha1.ConditionAccepted:
			bad = condition.Status == metav1.ConditionFalse
		case v1alpha1.ConditionDegraded:
			bad = condition.Status == metav1.ConditionTrue
			if condition.Reason == v1alpha1.ReasonDiskFailed || condition.Reason == v1alpha1.ReasonDiskMissing {
				continue // diskEvents and the release of the claim tell of each disk
			}
		case v1alpha1.ConditionProgressing:
			if condition.Status == metav1.ConditionFalse && condition.Reason != v1alpha1.ReasonRolledOut {
				continue // Accepted or Degraded tells why
			}
		default:
			continue // these follow from the others
		}
		if old == nil && !bad && (condition.Status == metav1.ConditionFalse || condition.Type == v1alpha1.ConditionAccepted) {
			continue // the first status is no change
		}
		kind := corev1.EventTypeNormal
		if bad {
			kind = corev1.EventTypeWarning
		}
		list = append(list, Event{Type: kind, Reason: condition.Reason, Action: "Reconcile", Note: condition.Message})
	}
	return list
}

// movementEvents returns the event about an edit that begins to move keys, or waits to.
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

// diskEvents returns the events about disks that failed and disks that came back.
func diskEvents(before, after []v1alpha1.PodStatus) []Event {
	was, is := failures(before), failures(after)
	var list []Event
	for key, d := range is {
		if _, known := was[key]; !known {
			list = append(list, Event{
				Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonDiskFailed, Action: "Observe-" + d.Name, Pod: key.pod,
				Note: fmt.Sprintf("%s of %s is out of use: %s: %s", d.Name, key.pod, d.Reason, d.Message),
			})
		}
	}
	for key, d := range was {
		still := slices.ContainsFunc(after, func(p v1alpha1.PodStatus) bool { return p.Name == key.pod })
		if _, known := is[key]; !known && still {
			list = append(list, Event{
				Type: corev1.EventTypeNormal, Reason: "DiskHealthy", Action: "Observe-" + d.Name, Pod: key.pod,
				Note: fmt.Sprintf("%s of %s is in use again", d.Name, key.pod),
			})
		}
	}
	slices.SortFunc(list, func(a, b Event) int { return strings.Compare(a.Note, b.Note) })
	return list
}

type podDisk struct{ pod, disk string }

// failures returns the disks that have failed.
func failures(pods []v1alpha1.PodStatus) map[podDisk]v1alpha1.PodDiskStatus {
	disks := map[podDisk]v1alpha1.PodDiskStatus{}
	for _, p := range pods {
		for _, d := range p.Disks {
			if d.State == string(v1alpha1.DiskFailed) {
				disks[podDisk{p.Name, d.Name}] = d
			}
		}
	}
	return disks
}
