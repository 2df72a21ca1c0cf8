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

// State is all that [Plan] decides from. Nothing in it is changed.
type State struct {
	CacheNode *v1alpha1.CacheNode
	Now       time.Time
	// Nodes are all nodes of the cluster.
	Nodes []corev1.Node
	// Pods and Claims are those of the CacheNode.
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
	// Volumes are those of the CacheNode and those that its claims have, by name.
	Volumes map[string]*corev1.PersistentVolume
	// Classes are the StorageClasses of the claims, by name.
	Classes map[string]*storagev1.StorageClass
	// Scouts are the pods that look for missing disks, with their claims.
	Scouts Scouts
	// Disks are what the pods' agents report, without those that are healthy.
	Disks map[PodDisk]Report
	// Verbs are what a person asks for.
	Verbs Verbs
	// Since is what the last plan said must last; see [Actions].
	Since Since
	// Allowed is true for a localPath that the operator allows.
	Allowed func(path string) bool
	// MaxVolumes is how many volumes the CacheNodes of a namespace may have together; 0 for any number.
	MaxVolumes int
	// Scout has the image that scouts run.
	Scout manifest.ScoutImage

	// Fresh: nodes, pods, claims and volumes were read from the API server itself in this pass.
	Fresh bool
	// All are the volumes of the whole cluster, read from the API server itself; nil where they were not read.
	All []corev1.PersistentVolume
	// Events are those about pods that do not start, by pod; a pod whose events were not read has no entry.
	Events map[string][]corev1.Event
}

// Scouts are what there is of them.
type Scouts struct {
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
}

// PodDisk is a disk of a pod.
type PodDisk struct{ Pod, Disk string }

func (d PodDisk) String() string { return d.Pod + ", " + d.Disk }

// Report is what an agent says of a disk that is not healthy.
type Report struct {
	State  v1alpha1.DiskState
	Reason v1alpha1.DiskReason
	Since  time.Time
}

// Since is since when something lasts that is acted on only if it lasts; the zero time for what is not so.
type Since struct {
	// Displaced: a pod is on a node that the spec no longer allows.
	Displaced time.Time
	// Fewer: with one pod on each node, there are fewer nodes than pods.
	Fewer time.Time
}

// Release takes claims away from a pod, so that it starts with other volumes.
type Release struct {
	// Name is the pod's; Pod is nil where there is none.
	Name string
	Pod  *corev1.Pod
	// Placeholders are created first.
	Placeholders []*corev1.PersistentVolume
	// Claims are deleted; the pod goes with them.
	Claims []*corev1.PersistentVolumeClaim
	// Evict: the pod may serve, and goes only as the disruption budget allows. Force: no kubelet is there to end it.
	Evict, Force bool
	// Reason and Note are the event's.
	Reason, Note string
}

func (s State) replicas() int { return int(ptr.Deref(s.CacheNode.Spec.Replicas, 1)) }

// pod is the pod of a name; nil while there is none.
func (s State) pod(name string) *corev1.Pod {
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Pods[i]
}

// podNames are the names of the wanted pods, in the order of their ordinals.
func (s State) podNames() []string {
	names := make([]string, s.replicas())
	for ordinal := range names {
		names[ordinal] = naming.Pod(s.CacheNode.Name, ordinal)
	}
	return names
}

// AreAllReady is true when every wanted pod is there and ready.
func (s State) AreAllReady() bool {
	return !slices.ContainsFunc(s.podNames(), func(name string) bool { return !IsReady(s.pod(name)) })
}

// claimsOf are the claims of a pod by disk, of disks that are no longer in the spec too, but not those that are being
// deleted.
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

// localDisk is the disk of a name if it has a localPath, and nil otherwise.
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

// diskOf is the disk that a claim is for, by its label or, where it has none, by its name; disks' names have no hyphen.
func diskOf(claim *corev1.PersistentVolumeClaim) string {
	if disk := claim.Labels[naming.LabelDisk]; disk != "" {
		return disk
	}
	disk, _, _ := strings.Cut(claim.Name, "-")
	return disk
}

// allowedDown is how many pods may be down at once: the disruption budget, as its controller computes it.
func (s State) allowedDown() int {
	maxUnavailable := ptr.Deref(s.CacheNode.Spec.Disruption.MaxUnavailable, intstr.FromInt32(1))
	allowed, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, s.replicas(), true)
	if err != nil {
		return 0 // the schema allows nothing else
	}
	return allowed
}

// IsReady is what the kubelet says of a pod that is not being deleted.
func IsReady(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// earlier is the shorter of two times, of which 0 means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
