package storage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// tidyClaims decides which claims are deleted, which claims ask for more space, and which claims the CacheNode owns.
// Kubernetes deletes a claim that the CacheNode owns together with the CacheNode.
func (p *plan) tidyClaims() {
	for i := range p.Claims {
		claim := &p.Claims[i]
		if !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if pod, ordinal, ok := p.podOf(claim); ok {
			if p.isUnwanted(claim, pod, ordinal) {
				p.Follow.Unwanted = append(p.Follow.Unwanted, claim)
				continue
			}
			p.grow(claim)
		}
		if owners := p.ownersOf(claim); !slices.EqualFunc(owners, claim.OwnerReferences, isSameOwner) {
			p.Follow.Own = append(p.Follow.Own, Ownership{Claim: claim, Owners: owners})
		}
	}
}

// isUnwanted reports whether a claim must be deleted. No pod uses such a claim. Either its disk is no longer in the
// spec, or its pod was scaled away and the spec deletes the claims of such pods.
func (p *plan) isUnwanted(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, ordinal int) bool {
	if pod != nil && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	}) {
		return false
	}
	scaledAway := ordinal >= p.replicas()
	scaledGo := p.CacheNode.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled == v1alpha1.DeleteClaims ||
		p.CacheNode.Spec.Placement.PerNode
	return (!p.hasDisk(diskOf(claim)) && (pod != nil || scaledAway)) || (scaledAway && pod == nil && scaledGo)
}

// grow asks for more space for a bound claim if the size in the spec is larger and the StorageClass allows expansion.
// A claim never shrinks.
func (p *plan) grow(claim *corev1.PersistentVolumeClaim) {
	class := p.Classes[ptr.Deref(claim.Spec.StorageClassName, "")]
	if class == nil || !ptr.Deref(class.AllowVolumeExpansion, false) || claim.Status.Phase != corev1.ClaimBound {
		return
	}
	for _, d := range p.CacheNode.Spec.Disks {
		if d.Name == diskOf(claim) && claim.Spec.Resources.Requests.Storage().Cmp(d.Size) < 0 {
			p.Follow.Grow = append(p.Follow.Grow, Growth{Claim: claim, Size: d.Size})
		}
	}
}

// podOf returns the pod to which a claim belongs, and the ordinal of this pod. pod is nil if the pod does not exist. ok
// is false if the claim belongs to a scout.
func (s State) podOf(claim *corev1.PersistentVolumeClaim) (pod *corev1.Pod, ordinal int, ok bool) {
	disk := diskOf(claim)
	if disk == "" || len(claim.Name) <= len(disk) || claim.Labels[naming.LabelRole] != "" {
		return nil, 0, false
	}
	name := claim.Name[len(disk)+1:]
	ordinal, ok = naming.Ordinal(s.CacheNode.Name, name)
	return s.pod(name), ordinal, ok
}

// ownersOf returns the owners that a claim must have. The CacheNode is one of them if the claim must be deleted
// together with the CacheNode.
func (s State) ownersOf(claim *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	version := v1alpha1.GroupVersion.String()
	goes := s.CacheNode.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted != v1alpha1.RetainClaims
	owned := false
	var owners []metav1.OwnerReference
	for _, o := range claim.OwnerReferences {
		isCacheNode := o.Kind == "CacheNode" && o.APIVersion == version
		if isCacheNode && (!goes || o.UID != s.CacheNode.UID) {
			continue
		}
		owned = owned || isCacheNode
		owners = append(owners, o)
	}
	if goes && !owned {
		owners = append(owners, metav1.OwnerReference{
			APIVersion: version, Kind: "CacheNode", Name: s.CacheNode.Name, UID: s.CacheNode.UID,
		})
	}
	return owners
}

func isSameOwner(a, b metav1.OwnerReference) bool { return a.UID == b.UID }
