package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startPatience is how long a pod may be on its way before it is told what holds it up: most of that passes by itself.
const startPatience = 10 * time.Second

// heldUp says what keeps a pod from starting, in the words of the scheduler or the kubelet; "" where nothing is known to. after
// is when to look again, 0 for when the pod changes. The text is the same at each try, so that none of them writes a status.
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
	for _, c := range lagging(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)) {
		if why := containerWaits(c); why != "" {
			return "container " + c.Name + ": " + why
		}
	}
	return ""
}

// containerWaits says why a container does not run, or not for long.
func containerWaits(c corev1.ContainerStatus) string {
	if ended := c.LastTerminationState.Terminated; ended != nil {
		return strings.TrimSpace(fmt.Sprintf("it ends with exit code %d %s", ended.ExitCode, ended.Reason)) + ", and is started again"
	}
	switch why := c.State.Waiting; why.Reason {
	case "", "ContainerCreating", "PodInitializing": // being made
		return ""
	case "ErrImagePull", "ImagePullBackOff": // in turn
		return "ImagePullBackOff"
	case "CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull": // their messages stay the same
		return strings.TrimSuffix(why.Reason+": "+why.Message, ": ")
	default:
		return why.Reason
	}
}

// lagging are the containers that wait, or have ended and are not ready again, with what is read of them: thousands are in memory.
func lagging(all []corev1.ContainerStatus) (some []corev1.ContainerStatus) {
	for _, c := range all {
		ended := c.LastTerminationState.Terminated
		if c.Ready || (c.State.Waiting == nil && ended == nil) {
			continue
		}
		kept := corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Waiting: c.State.Waiting}}
		if ended != nil {
			kept.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: ended.Reason}
		}
		some = append(some, kept)
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
