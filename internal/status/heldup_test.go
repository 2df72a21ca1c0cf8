package status

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func TestWhyAPodDoesNotStart(t *testing.T) {
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"},
	}}
	waits := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "nginx", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
				}},
			},
		}
	}
	ready := waits("CreateContainerError", "")
	ready.Conditions = append(ready.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	ends := func(state corev1.ContainerState) corev1.PodStatus {
		s := waits("", "")
		s.ContainerStatuses[1] = corev1.ContainerStatus{
			Name: "nginx", State: state,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", ContainerID: "containerd://x", Message: "x",
			}},
		}
		return s
	}
	const endsAgain = "container nginx: restarts after exit code 1 Error"
	tests := map[string]struct {
		status corev1.PodStatus
		age    time.Duration
		want   string
		after  time.Duration
	}{
		"on no node":               {unscheduled, time.Minute, "not scheduled: 0/3 nodes are available", 0},
		"on no node, for a moment": {unscheduled, 4 * time.Second, "", 6 * time.Second},
		"an image that cannot be had": {
			waits("ErrImagePull", "dial tcp: timeout 17"),
			time.Minute, "container nginx: ImagePullBackOff", 0,
		},
		"a program that ends, waits": {
			ends(corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"},
			}),
			time.Minute, endsAgain, 0,
		},
		"a program that ends, runs": {
			ends(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			time.Minute, endsAgain, 0,
		},
		"a program that ends, ended": {
			ends(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}),
			time.Minute, endsAgain, 0,
		},
		"a message that changes": {
			waits("CreateContainerError", "container 17b is reserved"),
			time.Minute, "container nginx: CreateContainerError", 0,
		},
		"a Secret that is not there": {
			waits("CreateContainerConfigError", `secret "x" not found`),
			time.Minute, `container nginx: CreateContainerConfigError: secret "x" not found`, 0,
		},
		"a reason without a message": {
			waits("InvalidImageName", ""),
			time.Minute, "container nginx: InvalidImageName", 0,
		},
		"being made":                    {waits("ContainerCreating", ""), time.Minute, "", 0},
		"nothing is known":              {corev1.PodStatus{}, time.Minute, "", 0},
		"ready, though one of it waits": {ready, time.Minute, "", 0},
	}
	now := time.Unix(1_800_000_000, 0)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: test.status}
			pod.CreationTimestamp = metav1.NewTime(now.Add(-test.age))
			// The operator's informer cache contains the statuses in this form.
			pod.Status.InitContainerStatuses = Lagging(pod.Status.InitContainerStatuses)
			pod.Status.ContainerStatuses = Lagging(pod.Status.ContainerStatuses)
			if got, after := heldUp(pod, now); got != test.want || after != test.after {
				t.Errorf("got %q, again after %s; want %q, %s", got, after, test.want, test.after)
			}
		})
	}
}

// TestTheStatusSaysWhyPodsDoNotStart checks that the CacheNode shows why its pods do not start.
func TestTheStatusSaysWhyPodsDoNotStart(t *testing.T) {
	f := Facts{
		CacheNode:   &v1alpha1.CacheNode{Spec: v1alpha1.CacheNodeSpec{Replicas: new(int32(3))}},
		Now:         time.Unix(1_800_000_000, 0),
		StatefulSet: statefulSet(1, 1, 3, 3, 3, 0), Rollout: &Rollout{Done: true, Settled: true},
	}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: naming.Pod("edge", i), CreationTimestamp: metav1.NewTime(f.Now.Add(-time.Minute)),
		}}
		if i > 0 {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has a disk for it",
			}}
		}
		f.Pods = append(f.Pods, Pod{Pod: pod})
	}
	status := Of(f)
	want := "0 of 3 pods are ready; edge-1, edge-2: not scheduled: no node has a disk for it"
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c.Message != want {
			t.Errorf("%s says %q, want %q", kind, c.Message, want)
		}
	}
	for _, p := range status.Pods {
		if (p.Message != "") != (p.Name != "edge-0") || (p.Message != "" && !strings.HasSuffix(want, p.Message)) {
			t.Errorf("%s: %q", p.Name, p.Message)
		}
	}
}
