package storage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Unwanted are the claims that nobody needs any more: those of disks that are no longer in the spec, once the pod does
// without them, and those of pods that were scaled away, where the spec says that they go.
func Unwanted(s State) []*corev1.PersistentVolumeClaim {
	var list []*corev1.PersistentVolumeClaim
	policy := s.CacheNode.Spec.PersistentVolumeClaimRetentionPolicy
	scaledGo := policy.WhenScaled == v1alpha1.DeleteClaims || s.CacheNode.Spec.Placement.PerNode
	for i := range s.Claims {
		claim := &s.Claims[i]
		disk := diskOf(claim)
		ordinal, ok := ordinalOf(s.CacheNode.Name, claim)
		if !ok || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		inSpec := slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
		pod := s.pod(ordinal)
		uses := pod != nil && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		})
		scaledAway := ordinal >= s.replicas()
		switch {
		case uses:
		case !inSpec && (pod != nil || scaledAway), scaledAway && pod == nil && scaledGo:
			list = append(list, claim)
		}
	}
	return list
}

// ordinalOf is the ordinal of the pod that a claim is for.
func ordinalOf(cacheNode string, claim *corev1.PersistentVolumeClaim) (int, bool) {
	disk := diskOf(claim)
	if disk == "" || len(claim.Name) <= len(disk) || claim.Labels[naming.LabelRole] != "" {
		return 0, false
	}
	return naming.Ordinal(cacheNode, claim.Name[len(disk)+1:])
}

// Growth is a claim that is to ask for more.
type Growth struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// Grown are the claims that ask for less than the spec. Whether their class allows more is not looked at here.
func Grown(s State) []Growth {
	var list []Growth
	for i := range s.Claims {
		claim := &s.Claims[i]
		if _, ok := ordinalOf(s.CacheNode.Name, claim); !ok || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		for _, d := range s.CacheNode.Spec.Disks {
			if d.Name == diskOf(claim) && claim.Spec.Resources.Requests.Storage().Cmp(d.Size) < 0 {
				list = append(list, Growth{Claim: claim, Size: d.Size})
			}
		}
	}
	return list
}
