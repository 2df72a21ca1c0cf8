package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// tidyClaims deletes the claims that nobody needs, asks for more where a disk grew, and has those that go with the CacheNode
// owned by it.
func (r *CacheNodeReconciler) tidyClaims(ctx context.Context, s *scope) error {
	state := s.storage()
	for _, claim := range storage.Unwanted(state) {
		if err := r.deleteClaim(ctx, s, claim); err != nil {
			return err
		}
		log.FromContext(ctx).Info("deleted a claim", "claim", claim.Name)
	}
	for _, growth := range storage.Grown(state) {
		if err := r.grow(ctx, growth); err != nil {
			return err
		}
	}
	for i := range s.claims {
		if err := r.own(ctx, s.node, &s.claims[i]); err != nil {
			return err
		}
	}
	return nil
}

// grow asks for more space, where the claim's class allows that.
func (r *CacheNodeReconciler) grow(ctx context.Context, growth storage.Growth) error {
	claim := growth.Claim
	name := ptr.Deref(claim.Spec.StorageClassName, "")
	if name == "" || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	class := &storagev1.StorageClass{}
	if err := r.get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ptr.Deref(class.AllowVolumeExpansion, false) {
		return nil
	}
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: growth.Size}
	log.FromContext(ctx).Info("a claim grows", "claim", claim.Name, "size", growth.Size.String())
	return client.IgnoreNotFound(r.Patch(ctx, claim, client.MergeFrom(before), client.FieldOwner(naming.FieldManager)))
}

// own makes the CacheNode the owner of a claim that goes with it, and no owner of one that is retained.
func (r *CacheNodeReconciler) own(ctx context.Context, cacheNode *v1alpha1.CacheNode, claim *corev1.PersistentVolumeClaim) error {
	if !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	goes := cacheNode.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted != v1alpha1.RetainClaims
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CacheNode", Name: cacheNode.Name, UID: cacheNode.UID}
	before := claim.DeepCopy()
	claim.OwnerReferences = slices.DeleteFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == owner.Kind && o.APIVersion == owner.APIVersion && (!goes || o.UID != owner.UID)
	})
	if goes && !slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
		claim.OwnerReferences = append(claim.OwnerReferences, owner)
	}
	if slices.Equal(ownerUIDs(before), ownerUIDs(claim)) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Patch(ctx, claim, patch, client.FieldOwner(naming.FieldManager))
	if apierrors.IsConflict(err) {
		return nil // its newer version is an event
	}
	return client.IgnoreNotFound(err)
}

func ownerUIDs(claim *corev1.PersistentVolumeClaim) []string {
	var list []string
	for _, o := range claim.OwnerReferences {
		list = append(list, string(o.UID))
	}
	return list
}
