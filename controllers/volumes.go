package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// applyVolumes makes the volumes of the disks with a localPath, and deletes those that nobody wants. Of a CacheNode that is
// new, nothing is made while another has one of the paths; one that runs goes on without the volumes of such nodes.
func (r *CacheNodeReconciler) applyVolumes(ctx context.Context, s *scope) error {
	plan, err := r.makeVolumes(ctx, s)
	if err != nil {
		return err
	}
	return r.deleteVolumes(ctx, s.node, plan)
}

// makeVolumes makes those that are missing. Two CacheNodes that want one path must not both see that nobody has it, so they
// take turns; those that have all their volumes wait for nobody.
func (r *CacheNodeReconciler) makeVolumes(ctx context.Context, s *scope) (storage.VolumePlan, error) {
	known, err := s.knownVolumes()
	if err != nil {
		return known, err
	}
	if s.lacks(known) {
		r.volumes.Lock()
		defer r.volumes.Unlock()
	}
	plan, err := r.planVolumes(ctx, s)
	if err != nil {
		return plan, err
	}
	if len(plan.Taken) > 0 {
		message := listed(plan.Taken) + ": name another path, or keep the two CacheNodes on different nodes by spec.pod.nodeSelector"
		if s.statefulSet == nil {
			return plan, &problem{reason: v1alpha1.ReasonPathTaken, message: message, retryAfter: time.Minute} // others' volumes are not watched for it
		}
		s.warnings = append(s.warnings, message)
		s.lookAgain(time.Minute)
	}
	if len(plan.Wanted) > 0 {
		if _, _, err := r.applier().Apply(ctx, manifest.LocalClass()); err != nil {
			return plan, err
		}
	}
	for _, volume := range plan.Wanted {
		_, outcome, err := r.applier().Apply(ctx, volume)
		if err != nil {
			return plan, err
		}
		if outcome == apply.Created {
			log.FromContext(ctx).Info("made a volume", "volume", volume.Name, "node", volume.Annotations[naming.AnnotationNode], "path", volume.Annotations[naming.AnnotationPath])
		}
	}
	return plan, nil
}

// lacks is true when a wanted volume is not there, as far as the cache knows.
func (s *scope) lacks(plan storage.VolumePlan) bool {
	return slices.ContainsFunc(plan.Wanted, func(wanted *corev1.PersistentVolume) bool { return s.volumes[wanted.Name] == nil })
}

// offerVolumes has volumes available again whose claims are gone.
func (r *CacheNodeReconciler) offerVolumes(ctx context.Context, s *scope) error {
	plan, err := r.planVolumes(ctx, s)
	if err != nil {
		return client.IgnoreNotFound(ignoreProblem(err)) // an affinity that cannot be read is told of later
	}
	for _, volume := range plan.Offer {
		before := volume.DeepCopy()
		volume.Spec.ClaimRef = nil
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := r.Patch(ctx, volume, patch, client.FieldOwner(naming.FieldManager))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // its newer version is an event
		}
		if err != nil {
			return err
		}
		log.FromContext(ctx).Info("offered a volume again", "volume", volume.Name)
	}
	return nil
}

// ignoreProblem drops an error of the spec.
func ignoreProblem(err error) error {
	if _, ok := errors.AsType[*problem](err); ok {
		return nil
	}
	return err
}

// knownVolumes is the plan from what the cache has of this CacheNode.
func (s *scope) knownVolumes() (storage.VolumePlan, error) {
	nodes, err := storage.Eligible(s.node.Spec, s.hosts)
	if err != nil {
		return storage.VolumePlan{}, &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	var known []corev1.PersistentVolume
	for _, volume := range s.volumes {
		known = append(known, *volume)
	}
	return storage.Volumes(s.node, nodes, known, s.claims), nil
}

// planVolumes looks at the volumes of this CacheNode and, where some are missing, at all others, which may have their paths.
func (r *CacheNodeReconciler) planVolumes(ctx context.Context, s *scope) (storage.VolumePlan, error) {
	plan, err := s.knownVolumes()
	if err != nil || !s.lacks(plan) {
		return plan, err
	}
	// Some are to be made: those of others count, strangers' too, and not as they were a moment ago.
	all := &corev1.PersistentVolumeList{}
	if err := r.Live.List(ctx, all); err != nil {
		return storage.VolumePlan{}, err
	}
	nodes, err := storage.Eligible(s.node.Spec, s.hosts)
	return storage.Volumes(s.node, nodes, all.Items, s.claims), err
}

// deleteVolumes deletes volumes. The caches of volumes and of claims are not of one moment, so a placeholder's claim is
// looked at once more: one that waits for its claim, which may be away for a moment, stays.
func (r *CacheNodeReconciler) deleteVolumes(ctx context.Context, cacheNode *v1alpha1.CacheNode, plan storage.VolumePlan) error {
	for _, volume := range plan.Delete {
		if ref := volume.Spec.ClaimRef; ref != nil && volume.Labels[naming.LabelRole] == naming.RolePlaceholder {
			claim := &corev1.PersistentVolumeClaim{}
			err := r.live(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
			if err == nil && (claim.Spec.VolumeName == volume.Name || claim.Spec.VolumeName == "" || !claim.DeletionTimestamp.IsZero()) {
				continue
			}
			if apierrors.IsNotFound(err) && volume.Status.Phase != corev1.VolumeReleased && storage.IsPlaceholderOf(cacheNode, volume) {
				continue
			}
			if client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, volume, client.Preconditions{UID: &volume.UID})); err != nil {
			return err
		}
		log.FromContext(ctx).Info("deleted a volume", "volume", volume.Name)
	}
	return nil
}

// abandonVolumes deletes the volumes of a CacheNode that is gone, as its claims go. They have no owner and no finalizer: an
// operator that was away then finds them when it is back.
func (r *CacheNodeReconciler) abandonVolumes(ctx context.Context, name types.NamespacedName) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := r.List(ctx, volumes, client.MatchingFields{instanceIndex: name.String()}); err != nil || len(volumes.Items) == 0 {
		return err
	}
	// The cache may not have a CacheNode yet that was made just now.
	err := r.live(ctx, name, &v1alpha1.CacheNode{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	gone := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	return r.deleteVolumes(ctx, gone, storage.Volumes(gone, nil, volumes.Items, nil))
}
