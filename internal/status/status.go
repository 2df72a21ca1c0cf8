package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Of is the status that follows from the facts and from the status of before: what the pass did not find out stays as it was.
func Of(f Facts) v1alpha1.CacheNodeStatus {
	status := *f.CacheNode.Status.DeepCopy()
	want := f.replicas()
	status.Selector = labels.SelectorFromSet(naming.PodSelector(f.CacheNode.Name)).String()
	status.Replicas, status.ReadyReplicas = f.countPods()
	status.ReadyOfReplicas = fmt.Sprintf("%d/%d", status.ReadyReplicas, want)
	if f.Config != nil {
		status.ConfigRevision = f.Config.Revision
		status.DiskCount = int32(len(f.Config.Plan.Disks())) //nolint:gosec // at most 32
		status.Size = totalSize(f.CacheNode.Spec.Disks, want)
		status.Tuning = f.Config.Tuning
		status.KeyMovement = f.Movement
	}
	status.Disks = f.diskStatuses()
	status.Pods = f.podStatuses()
	if f.Rollout != nil {
		status.Refusal = nil
		if r := f.Rollout.Refused; r != nil {
			status.Refusal = &v1alpha1.Refusal{Revision: r.Revision, Pod: r.Pod, Message: truncated(r.Message, 2048)}
		}
	}
	if f.Incomplete {
		return status
	}
	status.ObservedGeneration = f.CacheNode.Generation
	for _, condition := range conditions(f, status.ReadyReplicas) {
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// countPods takes the StatefulSet controller's word or, while it has not looked at a StatefulSet that was made again, counts.
func (f Facts) countPods() (all, ready int32) {
	if f.StatefulSet != nil && f.StatefulSet.Status.ObservedGeneration > 0 {
		return f.StatefulSet.Status.Replicas, f.StatefulSet.Status.ReadyReplicas
	}
	for _, p := range f.Pods {
		all++
		if storage.IsReady(p.Pod) {
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
