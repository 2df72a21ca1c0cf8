package executor

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/storage"
)

// release carries out all releases, even if one fails.
func (e *Executor) release(ctx context.Context, releases []storage.Release) error {
	var errs []error
	for _, release := range releases {
		errs = append(errs, e.releaseOne(ctx, release))
	}
	return errors.Join(errs...)
}

// releaseOne takes claims from a pod. It first creates the placeholders. It removes the pod before the claims, so that
// the pod is not recreated with the old claims. Kubernetes keeps a deleted claim until its pod is gone. While the
// disruption budget does not allow the eviction, no claim is deleted, and a later pass tries again.
func (e *Executor) releaseOne(ctx context.Context, release storage.Release) error {
	for _, volume := range release.Placeholders {
		if _, _, err := e.applier().Apply(ctx, volume); err != nil {
			return err
		}
	}
	gone, err := e.removePod(ctx, release)
	if err != nil || !gone {
		return err
	}
	for _, claim := range release.Claims {
		if err := e.deleteClaim(ctx, claim); err != nil {
			return err
		}
	}
	e.Released = append(e.Released, release)
	return nil
}

// removePod removes the pod of a release. gone is true if the pod is gone or is being deleted.
func (e *Executor) removePod(ctx context.Context, release storage.Release) (gone bool, err error) {
	switch {
	case release.Pod == nil: // the informer cache may not contain a new pod yet
		err := e.Live.Get(ctx, client.ObjectKey{Namespace: e.CacheNode.Namespace, Name: release.Name}, &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			e.again(time.Second)
			return false, err
		}
		return true, nil
	case !release.Force && !release.Pod.DeletionTimestamp.IsZero():
		return true, nil
	case release.Evict:
		return e.Evict(ctx, release.Pod, release.Note)
	}
	if gone, err = e.deletePod(ctx, release.Pod, release.Force); !gone {
		e.again(time.Second)
	}
	return gone, err
}

// deleteClaim deletes a claim, unless it has been recreated since it was read.
func (e *Executor) deleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	err := e.Delete(ctx, object, client.Preconditions{UID: &claim.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// deletePod deletes a pod without regard to the disruption budget. If force is true, the deletion does not wait for the
// kubelet, which may be gone. done is false if the pod has been recreated since it was read.
func (e *Executor) deletePod(ctx context.Context, pod *corev1.Pod, force bool) (done bool, err error) {
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	err = e.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, options...)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil || apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}
