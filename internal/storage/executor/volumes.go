package executor

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// applyVolumes updates existing volumes, and then creates new volumes, in the order of the plan. It stops at a volume
// that somebody else has created since the plan was made.
func (e *Executor) applyVolumes(ctx context.Context, follow storage.Follow) error {
	if len(follow.Create)+len(follow.Update) == 0 {
		return nil
	}
	if _, _, err := e.applier().Apply(ctx, manifest.LocalClass()); err != nil {
		return err
	}
	for _, volume := range follow.Update {
		if _, _, err := e.applier().Apply(ctx, volume); err != nil {
			return err
		}
	}
	for _, volume := range follow.Create {
		_, outcome, err := e.applier().Apply(ctx, volume)
		if taken, ok := errors.AsType[*apply.TakenError](err); ok {
			return fmt.Errorf("%w: %w", taken, apply.ErrStale) // the next plan names the owner
		}
		if err != nil {
			return err
		}
		if outcome == apply.Created {
			log.FromContext(ctx).Info("created a volume", "volume", volume.Name,
				"node", volume.Annotations[naming.AnnotationNode], "path", volume.Annotations[naming.AnnotationPath])
		}
	}
	return nil
}

// offer makes a volume available again after its claim is gone.
func (e *Executor) offer(ctx context.Context, volume *corev1.PersistentVolume) error {
	offered := volume.DeepCopy()
	offered.Spec.ClaimRef = nil
	if err := e.patchUnchanged(ctx, offered, volume); err != nil {
		return err
	}
	log.FromContext(ctx).Info("offered a volume again", "volume", volume.Name)
	return nil
}

// deleteVolumes deletes volumes, except placeholders that a claim uses or may still use. To check this, isAwaited reads
// the claim of a placeholder from the API server. The informer caches of volumes and claims are not updated at the same
// time. So a claim that exists may be missing in the cache for a moment.
func (e *Executor) deleteVolumes(ctx context.Context, volumes []*corev1.PersistentVolume) error {
	for _, volume := range volumes {
		awaited, err := e.isAwaited(ctx, volume)
		if err != nil {
			return err
		}
		if awaited {
			continue
		}
		if err := client.IgnoreNotFound(e.Delete(ctx, volume, client.Preconditions{UID: &volume.UID})); err != nil {
			return err
		}
		log.FromContext(ctx).Info("deleted a volume", "volume", volume.Name)
	}
	return nil
}

// isAwaited reports whether a volume is a placeholder whose claim exists or may still be created.
func (e *Executor) isAwaited(ctx context.Context, volume *corev1.PersistentVolume) (bool, error) {
	ref := volume.Spec.ClaimRef
	if ref == nil || volume.Labels[naming.LabelRole] != naming.RolePlaceholder {
		return false, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := e.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
	switch {
	case err == nil:
		return claim.Spec.VolumeName == volume.Name || claim.Spec.VolumeName == "" || !claim.DeletionTimestamp.IsZero(), nil
	case apierrors.IsNotFound(err):
		return volume.Status.Phase != corev1.VolumeReleased && storage.IsAwaited(e.CacheNode, volume), nil
	}
	return false, err
}

// Abandon deletes the volumes of a CacheNode that no longer exists. It deletes each volume after the volume's claim
// is gone.
func (e *Executor) Abandon(ctx context.Context, volumes []corev1.PersistentVolume) error {
	state := storage.State{CacheNode: e.CacheNode, Volumes: map[string]*corev1.PersistentVolume{}}
	for i := range volumes {
		state.Volumes[volumes[i].Name] = &volumes[i]
	}
	return e.deleteVolumes(ctx, storage.Plan(state).Follow.Delete)
}
