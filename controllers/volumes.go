package controllers

import (
	"context"
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

// applyVolumes makes the volumes of the disks with a localPath, offers those again whose claims are gone, and deletes those
// that nobody wants. Nothing is made while another CacheNode has one of the paths.
func (r *CacheNodeReconciler) applyVolumes(ctx context.Context, s *scope) error {
	plan, err := r.planVolumes(ctx, s)
	if err != nil {
		return err
	}
	if len(plan.Taken) > 0 {
		return &problem{
			reason:     v1alpha1.ReasonPathTaken,
			message:    listed(plan.Taken) + ": name another path, or keep the two CacheNodes on different nodes by spec.pod.nodeSelector",
			retryAfter: time.Minute, // volumes of others tell of their own changes
		}
	}
	if len(plan.Wanted) > 0 {
		if _, _, err := r.applier().Apply(ctx, manifest.LocalClass()); err != nil {
			return err
		}
	}
	for _, volume := range plan.Wanted {
		_, outcome, err := r.applier().Apply(ctx, volume)
		if err != nil {
			return err
		}
		if outcome == apply.Created {
			log.FromContext(ctx).Info("made a volume", "volume", volume.Name, "node", volume.Annotations[naming.AnnotationNode], "path", volume.Annotations[naming.AnnotationPath])
		}
	}
	return r.tidyVolumes(ctx, plan)
}

// planVolumes looks at the volumes of this CacheNode and at those of others that have the names of wanted ones.
func (r *CacheNodeReconciler) planVolumes(ctx context.Context, s *scope) (storage.VolumePlan, error) {
	hosts, err := storage.Eligible(s.node.Spec, s.hosts)
	if err != nil {
		return storage.VolumePlan{}, &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	var live []corev1.PersistentVolume
	for _, volume := range s.volumes {
		live = append(live, *volume)
	}
	plan := storage.Volumes(s.node, hosts, live, s.claims)
	for _, wanted := range plan.Wanted {
		if s.volumes[wanted.Name] != nil {
			continue
		}
		other := &corev1.PersistentVolume{}
		switch err := r.get(ctx, client.ObjectKeyFromObject(wanted), other); {
		case err == nil:
			live = append(live, *other)
		case !apierrors.IsNotFound(err):
			return storage.VolumePlan{}, err
		}
	}
	return storage.Volumes(s.node, hosts, live, s.claims), nil
}

// tidyVolumes offers and deletes volumes.
func (r *CacheNodeReconciler) tidyVolumes(ctx context.Context, plan storage.VolumePlan) error {
	for _, volume := range plan.Offer {
		before := volume.DeepCopy()
		volume.Spec.ClaimRef = nil
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Patch(ctx, volume, patch, client.FieldOwner(naming.FieldManager)); err != nil {
			return client.IgnoreNotFound(err)
		}
		log.FromContext(ctx).Info("offered a volume again", "volume", volume.Name)
	}
	for _, volume := range plan.Delete {
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
	labels := client.MatchingLabels(naming.PodSelector(name.Name))
	if err := r.List(ctx, volumes, labels, client.MatchingLabels{naming.LabelNamespace: name.Namespace}); err != nil || len(volumes.Items) == 0 {
		return err
	}
	// The cache may not have a CacheNode yet that was made just now.
	err := r.live(ctx, name, &v1alpha1.CacheNode{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	gone := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	return r.tidyVolumes(ctx, storage.Volumes(gone, nil, volumes.Items, nil))
}
