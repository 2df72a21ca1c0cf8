package controllers

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startPatience is how long a pod may be on its way before it is told what holds it up: most of that passes by itself.
const startPatience = 10 * time.Second

// changing are the reasons whose messages change from one try to the next: the reason says enough.
var changing = map[string]string{"ErrImagePull": "ImagePullBackOff", "ImagePullBackOff": "ImagePullBackOff", "CrashLoopBackOff": "CrashLoopBackOff"}

// heldUp says what keeps a pod from starting, in the words of the scheduler or the kubelet; "" where nothing is known to. after
// is when to look again, 0 for when the pod changes.
func heldUp(pod *corev1.Pod, now time.Time) (message string, after time.Duration) {
	if !pod.DeletionTimestamp.IsZero() || isReady(pod) {
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
			return "it is on no node yet: " + c.Message
		}
	}
	containers := waiting(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses))
	if len(containers) == 0 {
		return ""
	}
	first, why := containers[0].Name, containers[0].State.Waiting
	if reason, ok := changing[why.Reason]; ok {
		return "container " + first + ": " + reason
	}
	return strings.TrimSuffix("container "+first+": "+why.Reason+": "+why.Message, ": ")
}

// waiting are the containers that wait for something that may not come: not those that are being made.
func waiting(all []corev1.ContainerStatus) (some []corev1.ContainerStatus) {
	for _, c := range all {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			some = append(some, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Waiting: w}})
		}
	}
	return some
}

// lookAtPods notes what holds pods up.
func (s *scope) lookAtPods() {
	s.heldUp = map[string]string{}
	for i := range s.pods {
		message, after := heldUp(&s.pods[i], s.now)
		if message != "" {
			s.heldUp[s.pods[i].Name] = truncated(message, 512)
		}
		s.lookAgain(after)
	}
}
