package controllers

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// leaveAfter is how long a node must not match before its pod goes: a label that is set anew may be away for a moment.
const leaveAfter = 10 * time.Second

// followHosts keeps the pods on the nodes that the spec allows.
func (r *CacheNodeReconciler) followHosts(ctx context.Context, s *scope) error {
	if s.node.Spec.Placement.PerNode {
		if err := r.scaleToHosts(ctx, s); err != nil {
			return err
		}
	}
	displaced, err := storage.Displaced(s.storage())
	if err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	if !r.isForLong(s, "displaced", len(displaced) > 0) {
		return nil
	}
	for _, release := range displaced {
		if err := r.release(ctx, s, release); err != nil {
			return err
		}
	}
	return nil
}

// isForLong is true for what has been so for leaveAfter. An operator that starts anew begins to count anew.
func (r *CacheNodeReconciler) isForLong(s *scope, what string, is bool) bool {
	key := string(s.node.UID) + what
	if !is {
		r.since.Delete(key)
		return false
	}
	since, _ := r.since.LoadOrStore(key, s.now)
	left := leaveAfter - s.now.Sub(since.(time.Time))
	s.lookAgain(left + time.Second)
	return left <= 0
}

// scaleToHosts sets the number of pods to that of the nodes, with one pod on each. It goes up at once, and down by one pod at
// a time, after another look at the API server itself, and not while nodes are lost: pods of those wait.
func (r *CacheNodeReconciler) scaleToHosts(ctx context.Context, s *scope) error {
	want, err := hostCount(s)
	if err != nil {
		return err
	}
	has := replicasOf(s.node)
	if !r.isForLong(s, "fewer", want < has) && want <= has {
		return nil
	}
	if want < has {
		if err := r.readAgain(ctx, s); err != nil {
			return err
		}
		if want, err = hostCount(s); err != nil || want >= has || s.loss != "" {
			return err
		}
		for i := range s.pods {
			if !s.pods[i].DeletionTimestamp.IsZero() {
				return nil // one is going already
			}
		}
		want = has - 1
	}
	log.FromContext(ctx).Info("one pod on each node", "replicas", want, "before", has)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+strconv.Itoa(want)+`}}`))
	scaled := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.node.Namespace, Name: s.node.Name}}
	if err := r.SubResource("scale").Patch(ctx, scaled, patch, client.FieldOwner(naming.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.node.Spec.Replicas = new(int32(want)) //nolint:gosec // at most 1000
	return nil
}

// hostCount is how many nodes are to have a pod.
func hostCount(s *scope) (int, error) {
	nodes, err := storage.Eligible(s.node.Spec, s.hosts)
	if err != nil {
		return 0, &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	nodes = storage.Tolerated(s.node.Spec, nodes, runningPods(s.pods))
	switch n := len(nodes); {
	case n == 0:
		return 0, &problem{
			reason: v1alpha1.ReasonNoNodeMatches, retryAfter: time.Minute,
			message: "spec.placement.perNode: no node matches spec.pod.nodeSelector and spec.pod.affinity and has only taints that are tolerated; nothing is changed until one does",
		}
	case n > 1000:
		return 0, &problem{
			reason: v1alpha1.ReasonInvalidSpec, stalled: true,
			message: "spec.placement.perNode: more than 1000 nodes match: narrow them down by spec.pod.nodeSelector",
		}
	default:
		return n, nil
	}
}

// runningPods are those that are not being deleted.
func runningPods(pods []corev1.Pod) []corev1.Pod {
	var list []corev1.Pod
	for i := range pods {
		if pods[i].DeletionTimestamp.IsZero() {
			list = append(list, pods[i])
		}
	}
	return list
}
