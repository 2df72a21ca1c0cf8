package storage

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// State is what was read of a CacheNode, its pods and their claims.
type State struct {
	CacheNode *v1alpha1.CacheNode
	Now  time.Time
	// Nodes are all nodes of the cluster.
	Nodes  []corev1.Node
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
	// Volumes are those that the claims have, by name.
	Volumes map[string]*corev1.PersistentVolume
}

// Release takes claims away from a pod, so that it starts with other volumes.
type Release struct {
	Pod string
	// Claims are deleted; the pod, if it is there, goes with them.
	Claims []string
	// Evict: the pod may serve, and goes only as the disruption budget allows. Force: nobody is there to end it.
	Evict, Force bool
	// Reason and Note are the event's.
	Reason, Note string
}

func (s State) replicas() int { return int(ptr.Deref(s.CacheNode.Spec.Replicas, 1)) }

// pod is the pod with an ordinal; nil while there is none.
func (s State) pod(ordinal int) *corev1.Pod {
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == naming.Pod(s.CacheNode.Name, ordinal) })
	if i < 0 {
		return nil
	}
	return &s.Pods[i]
}

// ClaimsOf are the claims of a pod by disk, of disks that are no longer in the spec too, but not those that are being
// deleted.
func (s State) ClaimsOf(pod string) map[string]*corev1.PersistentVolumeClaim {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range s.Claims {
		c := &s.Claims[i]
		if disk := diskOf(c); c.Name == naming.Claim(disk, pod) && c.DeletionTimestamp.IsZero() {
			claims[disk] = c
		}
	}
	return claims
}

// diskOf is the disk that a claim is for, by its label or, where it has none, by its name; disks' names have no hyphen.
func diskOf(claim *corev1.PersistentVolumeClaim) string {
	if disk := claim.Labels[naming.LabelDisk]; disk != "" {
		return disk
	}
	disk, _, _ := strings.Cut(claim.Name, "-")
	return disk
}

// Allowed is how many of a number of pods may be down at once: the disruption budget, as its controller computes it.
func Allowed(spec v1alpha1.CacheNodeSpec, replicas int) int {
	allowed, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(spec.Disruption.MaxUnavailable, intstr.FromInt32(1))), replicas, true)
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
