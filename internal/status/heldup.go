package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/storage"
)

// startPatience is the time after the creation of a pod from which the status shows why the pod does not start. Before
// this time, the status shows nothing, because most obstacles go away by themselves.
const startPatience = 10 * time.Second

// heldUp returns why a pod does not start, in the words of the scheduler or the kubelet; "" if nothing is known. after
// is the time until the next check; 0 means that only a change of the pod causes a check. The message stays the same
// when the kubelet retries, so that a retry does not change the status.
func heldUp(pod *corev1.Pod, now time.Time) (message string, after time.Duration) {
	if !pod.DeletionTimestamp.IsZero() || storage.IsReady(pod) {
		return "", 0
	}
	message = inItsWay(pod)
	if left := startPatience - now.Sub(pod.CreationTimestamp.Time); message != "" && left > 0 {
		return "", left
	}
	return message, 0
}

func inItsWay(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + c.Message
		}
	}
	for _, c := range Lagging(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)) {
		if why := containerWaits(c); why != "" {
			return "container " + c.Name + ": " + why
		}
	}
	return ""
}

// containerWaits returns the reason why a container does not start, or why it ends soon after each start; "" if there
// is no such reason.
func containerWaits(c corev1.ContainerStatus) string {
	if ended := c.LastTerminationState.Terminated; ended != nil {
		return strings.TrimSpace(fmt.Sprintf("restarts after exit code %d %s", ended.ExitCode, ended.Reason))
	}
	if c.State.Waiting == nil {
		return ""
	}
	switch why := c.State.Waiting; why.Reason {
	case "", "ContainerCreating", "PodInitializing": // a normal part of the start
		return ""
	case "ErrImagePull", "ImagePullBackOff": // the kubelet alternates between the two
		return "ImagePullBackOff"
	case "CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull": // their messages do not change
		return strings.TrimSuffix(why.Reason+": "+why.Message, ": ")
	default:
		return why.Reason
	}
}

// Lagging returns the statuses of the containers that are not ready and that wait, have ended, or have been restarted.
// It keeps only the fields that the operator reads, because the informer cache stores thousands of pods.
func Lagging(all []corev1.ContainerStatus) (some []corev1.ContainerStatus) {
	for _, c := range all {
		ended := c.LastTerminationState.Terminated
		if c.Ready || (c.State.Waiting == nil && c.State.Terminated == nil && ended == nil) {
			continue
		}
		kept := corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Waiting: c.State.Waiting}}
		if c.State.Terminated != nil {
			kept.State.Terminated = &corev1.ContainerStateTerminated{}
		}
		if ended != nil {
			kept.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: ended.ExitCode, Reason: ended.Reason,
			}
		}
		some = append(some, kept)
	}
	return some
}

// heldUp returns why the pod does not start; see [heldUp]. If the scheduler and the kubelet report nothing in the pod's
// status, it returns the message about a volume that is not mounted.
func (p Pod) heldUp(now time.Time) (message string, after time.Duration) {
	message, after = heldUp(p.Pod, now)
	if message == "" && p.Mount != "" && !storage.IsReady(p.Pod) && p.DeletionTimestamp.IsZero() {
		message = "a volume is not mounted: " + p.Mount
	}
	return truncated(message, 512), after
}

// heldUp returns the pods that do not start, grouped by reason.
func (f Facts) heldUp() []string {
	var reasons, list []string
	pods := map[string][]string{}
	for _, p := range f.Pods {
		if why, _ := p.heldUp(f.Now); why != "" {
			if pods[why] == nil {
				reasons = append(reasons, why)
			}
			pods[why] = append(pods[why], p.Name)
		}
	}
	for _, why := range reasons {
		list = append(list, listedBy(pods[why], ", ")+": "+why)
	}
	if len(list) == 0 {
		return nil
	}
	return []string{Listed(list)}
}

// LookAgain returns the time after which the status may change without an event; 0 means never.
func (f Facts) LookAgain() time.Duration {
	var soonest time.Duration
	for _, p := range f.Pods {
		if _, after := p.heldUp(f.Now); after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	if _, _, after := f.expiry(); after > 0 && (soonest == 0 || after < soonest) {
		soonest = after
	}
	return soonest
}
