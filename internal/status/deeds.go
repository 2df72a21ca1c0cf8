package status

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Replaced returns the event for a pod that was evicted because the pod template has changed.
func Replaced(pod string) Event {
	return Event{
		Type: corev1.EventTypeNormal, Reason: "PodReplaced", Action: "Replace", Pod: pod,
		Note: pod + " is replaced from the new pod template",
	}
}

// Released returns the event for claims that were taken from a pod.
func Released(release storage.Release) Event {
	e := Event{
		Type: corev1.EventTypeNormal, Reason: release.Reason, Action: "Release",
		Note: fmt.Sprintf("%.1000s", release.Note),
	}
	if release.Pod != nil { // without a related object, Kubernetes would merge the events for two pods into one
		e.Pod = release.Pod.Name
	}
	return e
}

// Told returns the events for orders to a pod's agent. An order makes the agent drain, readmit or empty a disk. The
// orders are the differences between the annotations in before and after.
func Told(pod string, before, after map[string]string) (list []Event) {
	add := func(reason, action, format, disks string) {
		list = append(list, Event{
			Type: corev1.EventTypeNormal, Reason: reason, Action: action, Pod: pod, Note: fmt.Sprintf(format, pod, disks),
		})
	}
	switch was, is := before[naming.AnnotationDrained], after[naming.AnnotationDrained]; {
	case is != "" && is != was:
		add("DiskDrained", "Drain", "%s stopped using %s; its files stay", is)
	case is == "" && was != "":
		add("DiskReadmitted", "Readmit", "%s uses %s again", was)
	}
	if is := after[naming.AnnotationEmpty]; is != "" && is != before[naming.AnnotationEmpty] {
		add("CacheAbandoned", "Empty", "%s deletes caches whose CacheNode is gone: %s", is)
	}
	return list
}

// LeavesAtOnce returns the event for a removed disk that leaves at once. The disk cannot stay until other disks have
// copied objects from it, because the agents of some pods are too old. The parameter pods contains these pods, and told
// contains the pods that the last such event named. If both lists are equal or pods is empty, LeavesAtOnce returns
// nothing.
func LeavesAtOnce(told, pods []string) []Event {
	if len(pods) == 0 || slices.Equal(told, pods) {
		return nil
	}
	return []Event{{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonAgentTooOld, Action: "Remove",
		Note: "a removed disk leaves at once, as the agents of " + Listed(pods) + " are too old",
	}}
}
