package storage

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// State contains everything on which the decisions of [Plan] depend. Plan does not change it.
type State struct {
	CacheNode *v1alpha1.CacheNode
	Now       time.Time
	// Nodes are all nodes of the cluster.
	Nodes []corev1.Node
	// Pods and Claims are the pods and claims of the CacheNode.
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
	// Volumes are the volumes of the CacheNode and the volumes to which its claims are bound, by name.
	Volumes map[string]*corev1.PersistentVolume
	// Classes are the StorageClasses of the claims, by name.
	Classes map[string]*storagev1.StorageClass
	// Scouts are the scouts' pods and claims.
	Scouts Scouts
	// Disks are the agents' reports of disks that are not healthy.
	Disks map[PodDisk]Report
	// Verbs are the requests that users make by annotations.
	Verbs Verbs
	// Since is the value of [Actions].Since from the previous pass.
	Since Since
	// Allowed reports whether the operator allows a localPath; nil allows all.
	Allowed func(path string) bool
	// MaxVolumes is the maximum number of volumes of all CacheNodes of a namespace together; 0 means no limit.
	MaxVolumes int
	// Scout is the image that scouts run.
	Scout manifest.ScoutImage

	// Fresh is true if nodes, pods, claims and volumes were read from the API server in this pass.
	Fresh bool
	// All are the volumes of the whole cluster, read from the API server; nil if they were not read.
	All []corev1.PersistentVolume
	// Events are the events about pods that do not start, by pod. A pod whose events were not read has no entry.
	Events map[string][]corev1.Event
}

// Scouts are the existing pods and claims of scouts.
type Scouts struct {
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
}

// PodDisk is a disk of a pod.
type PodDisk struct{ Pod, Disk string }

func (d PodDisk) String() string { return d.Pod + ", " + d.Disk }

// Report is an agent's report of a disk that is not healthy.
type Report struct {
	State  v1alpha1.DiskState
	Reason v1alpha1.DiskReason
	Since  time.Time
}

// Since contains the times at which some states began. These states cause an action only if they last for some time.
// The zero time means that the state does not exist now.
type Since struct {
	// Displaced is the time since which a pod is on a node that the spec no longer allows.
	Displaced time.Time
	// Fewer is the time since which there are fewer nodes than pods, with one pod on each node.
	Fewer time.Time
}

// Release takes claims away from a pod, so that the pod starts with other volumes.
type Release struct {
	// Name is the name of the pod. Pod is nil if there is no such pod.
	Name string
	Pod  *corev1.Pod
	// Placeholders are created first.
	Placeholders []*corev1.PersistentVolume
	// Claims are the claims of the pod that are deleted after the pod.
	Claims []*corev1.PersistentVolumeClaim
	// Evict is true for a pod that may serve. Such a pod is evicted when the disruption budget allows it. Force is true if
	// no kubelet can end the pod. Such a pod is deleted without a grace period.
	Evict, Force bool
	// Reason and Note are the reason and the note of the event.
	Reason, Note string
}

func (s State) replicas() int { return int(ptr.Deref(s.CacheNode.Spec.Replicas, 1)) }

// pod returns the pod with a name; nil if there is none.
func (s State) pod(name string) *corev1.Pod {
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Pods[i]
}

// CachePods returns the pods sorted by name. It leaves out pods that have ended, because the StatefulSet controller
// recreates them. It changes the list pods.
func CachePods(pods []corev1.Pod) []corev1.Pod {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// podNames returns the names of the wanted pods, in the order of their ordinals.
func (s State) podNames() []string {
	names := make([]string, s.replicas())
	for ordinal := range names {
		names[ordinal] = naming.Pod(s.CacheNode.Name, ordinal)
	}
	return names
}

// AreAllReady reports whether every wanted pod exists and is ready.
func (s State) AreAllReady() bool {
	return !slices.ContainsFunc(s.podNames(), func(name string) bool { return !IsReady(s.pod(name)) })
}

// claimsOf returns the claims of a pod, by disk. Claims that are being deleted are left out. Claims of disks that are
// no longer in the spec are included.
func (s State) claimsOf(pod string) map[string]*corev1.PersistentVolumeClaim {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range s.Claims {
		c := &s.Claims[i]
		if disk := diskOf(c); c.Name == naming.Claim(disk, pod) && c.DeletionTimestamp.IsZero() {
			claims[disk] = c
		}
	}
	return claims
}

// IsBound reports whether each wanted pod has a bound claim for a disk. A claim can be bound although no StorageClass
// object exists. Either a person created the volume, or the StorageClass was deleted later.
func (s State) IsBound(disk string) bool {
	return !slices.ContainsFunc(s.podNames(), func(pod string) bool {
		claim := s.claimsOf(pod)[disk]
		return claim == nil || claim.Spec.VolumeName == ""
	})
}

// localDisk returns the disk with a name if it has a localPath; nil otherwise.
func (s State) localDisk(name string) *v1alpha1.Disk {
	for i := range s.CacheNode.Spec.Disks {
		if d := &s.CacheNode.Spec.Disks[i]; d.Name == name && d.LocalPath != nil {
			return d
		}
	}
	return nil
}

func (s State) hasDisk(name string) bool {
	return slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == name })
}

func (s State) hasLocalDisks() bool {
	return slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.LocalPath != nil })
}

// diskOf returns the disk to which a claim belongs. It reads the claim's label or, if there is no label, the claim's
// name up to the first hyphen. The name of a disk contains no hyphen.
func diskOf(claim *corev1.PersistentVolumeClaim) string {
	if disk := claim.Labels[naming.LabelDisk]; disk != "" {
		return disk
	}
	disk, _, _ := strings.Cut(claim.Name, "-")
	return disk
}

// allowedDown returns how many pods may be down at once.
func (s State) allowedDown() int { return allowedDown(s.CacheNode, s.replicas()) }

// allowedDown returns how many of the given number of pods may be down at once. It computes this number from the spec
// in the same way as the disruption controller.
func allowedDown(cacheNode *v1alpha1.CacheNode, pods int) int {
	maxUnavailable := ptr.Deref(cacheNode.Spec.Disruption.MaxUnavailable, intstr.FromInt32(1))
	allowed, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, pods, true)
	if err != nil {
		return 0 // cannot happen: the schema rejects such values
	}
	return allowed
}

// Spare returns how many more pods of a CacheNode may be taken down now. It is negative if too many are down already.
func Spare(cacheNode *v1alpha1.CacheNode, pods []corev1.Pod) int {
	wanted, ready := max(int(ptr.Deref(cacheNode.Spec.Replicas, 1)), len(pods)), 0
	for i := range pods {
		if IsReady(&pods[i]) {
			ready++
		}
	}
	return allowedDown(cacheNode, wanted) - (wanted - ready)
}

// IsReady reports whether the kubelet reports a pod as ready. It returns false for nil and for a pod that is being
// deleted.
func IsReady(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp.IsZero() && IsServing(pod)
}

// IsServing reports whether the kubelet reports a pod as ready. Unlike IsReady, it can also return true for a pod that
// is being deleted, like the condition "serving" of an EndpointSlice.
func IsServing(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// earlier returns the shorter of two durations; 0 means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
