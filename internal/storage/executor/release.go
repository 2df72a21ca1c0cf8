package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/storage"
)

// evictRetry is when to ask again for an eviction that the disruption budget does not allow now.
const evictRetry = 5 * time.Second

// release carries releases out, each by itself.
func (e *Executor) release(ctx context.Context, releases []storage.Release) error {
	var errs []error
	for _, release := range releases {
		errs = append(errs, e.releaseOne(ctx, release))
	}
	return errors.Join(errs...)
}

// releaseOne takes claims from a pod. The pod goes first, so that it is not made again with the claims that are to go; the API
// server keeps them until it is gone. While the disruption budget does not allow it, nothing happens, and a later pass tries
// again.
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
	var pod runtime.Object // what two events differ in, or they are taken for one
	if release.Pod != nil {
		pod = release.Pod
	}
	e.Events.Eventf(e.CacheNode, pod, corev1.EventTypeNormal, release.Reason, "Release", "%.1000s", release.Note)
	return nil
}

// removePod has the pod of a release gone, or going.
func (e *Executor) removePod(ctx context.Context, release storage.Release) (gone bool, err error) {
	switch {
	case release.Pod == nil: // the cache may not have one yet that was made just now
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

// deleteClaim deletes a claim that is still the one that was looked at.
func (e *Executor) deleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	err := e.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}, client.Preconditions{UID: &claim.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// deletePod deletes a pod that does not serve; with force, without waiting for a kubelet that is not there. done is false if
// it is another by now.
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

// Evict lets a pod go, if the disruption budget allows it now. done is false while it does not.
func (e *Executor) Evict(ctx context.Context, pod *corev1.Pod, why string) (done bool, err error) {
	// Asked first, as client-go would go on asking by itself, and hold up other CacheNodes.
	budget := &policyv1.PodDisruptionBudget{}
	if err := e.Get(ctx, client.ObjectKeyFromObject(e.CacheNode), budget); err != nil {
		return false, client.IgnoreNotFound(err) // it is created again, which is an event
	}
	if storage.IsReady(pod) && (budget.Status.DisruptionsAllowed < 1 || budget.Status.ObservedGeneration < budget.Generation) {
		e.wait(pod, why)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, evictRetry)
	defer cancel()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err = e.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case apierrors.IsTooManyRequests(err), errors.Is(err, context.DeadlineExceeded):
		e.wait(pod, why)
		return false, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or another by now
		e.again(time.Second)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("evict %s: %w", pod.Name, err)
	}
	return true, nil
}

func (e *Executor) wait(pod *corev1.Pod, why string) {
	e.Waiting = fmt.Sprintf("%s waits for the disruption budget: %s", pod.Name, why)
	e.again(evictRetry)
}
