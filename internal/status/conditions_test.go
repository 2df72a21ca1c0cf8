package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// statefulSet returns a StatefulSet with a status like the one that the StatefulSet controller writes. seen is the
// generation that the controller has seen.
func statefulSet(generation, seen int64, want, replicas, updated, ready int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Generation = generation
	set.Spec.Replicas = &want
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: seen, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: ready,
		UpdateRevision: "new", CurrentRevision: "old",
	}
	if updated == want && ready == want {
		set.Status.CurrentRevision = "new"
	}
	return set
}

func TestConditions(t *testing.T) {
	const healthy = "Accepted Available Ready"
	lost := statefulSet(1, 1, 3, 3, 3, 2)
	lost.Status.CurrentRevision = "new" // the rollout was finished before the pod was lost
	tests := map[string]struct {
		set     *appsv1.StatefulSet
		problem *Problem
		failure error
		want    string // the conditions that are true
		reasons string
	}{
		"nothing there yet": {
			nil, nil, nil, "Accepted Progressing Reconciling",
			"Ready=RollingOut Progressing=RollingOut Degraded=AsExpected",
		},
		"the controller has not looked": {
			statefulSet(2, 1, 3, 3, 3, 3), nil, nil, "Accepted Available Progressing Reconciling",
			"Ready=RollingOut Progressing=RollingOut Degraded=AsExpected",
		},
		"pods are made": {
			statefulSet(1, 1, 3, 3, 3, 1), nil, nil, "Accepted Available Progressing Reconciling",
			"Ready=RollingOut Progressing=RollingOut Degraded=AsExpected",
		},
		"pods are replaced": {
			statefulSet(2, 2, 3, 3, 1, 3), nil, nil, "Accepted Available Progressing Reconciling",
			"Ready=RollingOut Progressing=RollingOut Degraded=AsExpected",
		},
		"one too many": {
			statefulSet(2, 2, 3, 4, 3, 3), nil, nil, "Accepted Available Progressing Reconciling",
			"Ready=RollingOut Progressing=RollingOut Degraded=AsExpected",
		},
		"all there": {
			statefulSet(1, 1, 3, 3, 3, 3), nil, nil, healthy,
			"Ready=Ready Progressing=RolledOut Degraded=AsExpected",
		},
		"none wanted": {
			statefulSet(1, 1, 0, 0, 0, 0), nil, nil, "Accepted Ready",
			"Ready=Ready Progressing=RolledOut Degraded=AsExpected",
		},
		"a pod is lost": {
			lost, nil, nil, "Accepted Available Degraded Reconciling",
			"Ready=PodsNotReady Progressing=RolledOut Degraded=PodsNotReady",
		},
		"a wrong spec, the pods go on": {
			statefulSet(1, 1, 3, 3, 3, 3), &Problem{Reason: "InvalidSpec", Stalled: true}, nil, "Available Stalled",
			"Ready=InvalidSpec Progressing=InvalidSpec Degraded=AsExpected",
		},
		"a wrong spec from the beginning": {
			nil, &Problem{Reason: "InvalidSpec", Stalled: true}, nil, "Stalled",
			"Ready=InvalidSpec Progressing=InvalidSpec Degraded=AsExpected",
		},
		"a reference is missing": {
			nil, &Problem{Reason: "ReferenceNotFound"}, nil, "Reconciling",
			"Ready=ReferenceNotFound Progressing=ReferenceNotFound Degraded=AsExpected",
		},
		"a reference is missing, pods go on": {
			statefulSet(1, 1, 3, 3, 3, 3), &Problem{Reason: "ReferenceNotFound"}, nil, "Available Reconciling",
			"Ready=ReferenceNotFound Progressing=ReferenceNotFound Degraded=AsExpected",
		},
		"an object must not be written": {
			statefulSet(1, 1, 3, 3, 3, 3), nil, apierrors.NewForbidden(schema.GroupResource{}, "x", nil),
			"Accepted Available Degraded Reconciling", "Ready=ApplyFailed Progressing=ApplyFailed Degraded=ApplyFailed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cacheNode := &v1alpha1.CacheNode{Spec: v1alpha1.CacheNodeSpec{Replicas: new(int32(3))}}
			cacheNode.Generation = 7
			if tt.set != nil {
				cacheNode.Spec.Replicas = tt.set.Spec.Replicas
			}
			if name == "a pod is lost" {
				progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse}
				cacheNode.Status.Conditions = []metav1.Condition{progressing}
			}
			var isTrue []string
			reasons := map[string]string{}
			facts := Facts{
				CacheNode: cacheNode, StatefulSet: tt.set, Problem: tt.problem, Failure: tt.failure,
				Rollout: &Rollout{Done: true, Settled: true},
			}
			list := Of(facts).Conditions
			for _, c := range list {
				if c.ObservedGeneration != 7 || c.Reason == "" {
					t.Errorf("%s has generation %d and reason %q", c.Type, c.ObservedGeneration, c.Reason)
				}
				reasons[c.Type] = c.Reason
				if c.Status == "True" {
					isTrue = append(isTrue, c.Type)
				}
			}
			if len(list) != 9 {
				t.Errorf("%d conditions, want 9", len(list))
			}
			if diff := cmp.Diff(strings.Fields(tt.want), isTrue); diff != "" {
				t.Errorf("true conditions (-want +got):\n%s", diff)
			}
			got := fmt.Sprintf("Ready=%s Progressing=%s Degraded=%s", reasons[v1alpha1.ConditionReady],
				reasons[v1alpha1.ConditionProgressing], reasons[v1alpha1.ConditionDegraded])
			if diff := cmp.Diff(tt.reasons, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARolloutWaitsForLaggingPods checks a rollout in which the StatefulSet already shows all pods as ready, but the
// operator does not yet see one pod as ready and has not asked its agent. Ready must not become True before the
// operator sees that pod as ready too.
func TestARolloutWaitsForLaggingPods(t *testing.T) {
	pod := &corev1.Pod{}
	f := Facts{
		CacheNode: &v1alpha1.CacheNode{}, StatefulSet: statefulSet(1, 1, 1, 1, 1, 1),
		Rollout: &Rollout{Done: true, Settled: true}, Pods: []Pod{{Pod: pod}},
	}
	if c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionReady); c.Status == metav1.ConditionTrue {
		t.Errorf("Ready is %s (%s)", c.Status, c.Reason)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %s (%s)", c.Status, c.Reason)
	}
}

// TestIncompletePasses checks a pass that ends with an error that may be temporary. It must change no condition, but
// the status must still show the known state of the pods.
func TestIncompletePasses(t *testing.T) {
	f := Facts{
		CacheNode:   &v1alpha1.CacheNode{Spec: v1alpha1.CacheNodeSpec{Replicas: new(int32(1))}},
		StatefulSet: statefulSet(1, 1, 1, 1, 1, 1),
		Rollout:     &Rollout{Done: true, Settled: true},
	}
	f.CacheNode.Status = Of(f)
	f.Incomplete, f.Rollout = true, nil
	f.Pods = []Pod{{
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, Report: &agentapi.Report{Revision: "abc"},
	}}
	after := Of(f)
	if diff := cmp.Diff(f.CacheNode.Status.Conditions, after.Conditions); diff != "" {
		t.Errorf("conditions changed (-before +after)\n%s", diff)
	}
	if len(after.Pods) != 1 || after.Pods[0].Revision != "abc" {
		t.Errorf("the status tells of %+v", after.Pods)
	}
}
