package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Of returns the status that follows from the facts and the previous status. Fields that the pass did not determine
// stay as they were.
func Of(f Facts) v1alpha1.CacheNodeStatus {
	status := *f.CacheNode.Status.DeepCopy()
	status.Selector = labels.SelectorFromSet(naming.PodSelector(f.CacheNode.Name)).String()
	status.Replicas, status.ReadyReplicas = f.countPods()
	status.ReadyOfReplicas = fmt.Sprintf("%d/%d", f.wantedReady(status.ReadyReplicas), f.wanted())
	if f.Config != nil {
		status.ConfigRevision = f.Config.Revision
		status.DiskCount = int32(len(f.Config.Plan.Members())) //nolint:gosec // at most 32
		status.Tuning = append(slices.Clone(f.Config.Tuning), f.withoutScripts()...)
		status.KeyMovement = f.Movement
	}
	if !f.isEarly() || len(status.Disks) == 0 {
		status.Disks = f.diskStatuses()
		status.HealthyDisks, status.Size = f.healthyDisks(), f.totalSize()
	}
	status.Pods, status.Routing, status.ListenerCertificate = f.podStatuses(), f.routing().status(), f.certificate()
	status.OutdatedPods = outdatedPods(status.Pods)
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

// OfFailure returns the previous status with conditions that show an error. It is for an error because of which the
// operator could not observe anything.
func OfFailure(cacheNode *v1alpha1.CacheNode, failure error) v1alpha1.CacheNodeStatus {
	status := *cacheNode.Status.DeepCopy()
	l := &conditionList{Facts: Facts{CacheNode: cacheNode, Failure: failure}}
	l.degraded(false, "")
	l.failing()
	for _, condition := range l.items {
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// countPods returns the numbers of pods and of ready pods that the StatefulSet controller reports. As long as the
// controller has not seen a new StatefulSet, countPods counts the pods itself.
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

// healthyDisks returns the number of healthy disks and the number of all disks of the wanted pods, in the form
// "healthy/all".
func (f Facts) healthyDisks() string {
	healthy := 0
	for _, d := range f.CacheNode.Spec.Disks {
		for _, report := range f.reports(d.Name) {
			if report.State == v1alpha1.DiskHealthy {
				healthy++
			}
		}
	}
	return fmt.Sprintf("%d/%d", healthy, int(f.wanted())*len(f.CacheNode.Spec.Disks))
}

// totalSize returns the total size of the file systems in use, as measured by the agents.
func (f Facts) totalSize() string {
	sum := resource.NewQuantity(0, resource.BinarySI)
	for _, d := range f.CacheNode.Spec.Disks {
		for _, report := range f.reports(d.Name) {
			if report.State != v1alpha1.DiskFailed && report.State != v1alpha1.DiskDrained {
				sum.Add(*resource.NewQuantity(report.Size, resource.BinarySI))
			}
		}
	}
	return effective.About(sum.Value())
}

// reports returns the reports of the wanted pods about a disk.
func (f Facts) reports(disk string) (list []agentapi.DiskReport) {
	for _, p := range f.Pods {
		for _, d := range p.disks() {
			if d.Name == disk && !f.isSurplus(p) {
				list = append(list, d)
			}
		}
	}
	return list
}

// measured returns the measured sizes of a disk's file systems in all pods, in bytes.
func (f Facts) measured(disk string) (sizes []int64) {
	for _, p := range f.Pods {
		for _, d := range p.disks() {
			if d.Name == disk && d.Size > 0 {
				sizes = append(sizes, d.Size)
			}
		}
	}
	return sizes
}

// smallDisks returns descriptions of the disks whose file systems have less than 80% of the size in the spec.
func (f Facts) smallDisks() []string {
	var list []string
	for i, d := range f.CacheNode.Spec.Disks {
		small := slices.DeleteFunc(f.measured(d.Name), func(size int64) bool { return size >= d.Size.Value()/10*8 })
		if len(small) > 0 {
			list = append(list, fmt.Sprintf("spec.disks[%d].size: %s is %s, and the file system has %s in %d pods: "+
				"the cache is bounded by the file system",
				i, d.Name, d.Size.String(), effective.About(slices.Min(small)), len(small)))
		}
	}
	return list
}
