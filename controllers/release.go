package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/storage"
)

// release takes claims from a pod. The pod goes first, so that it is not made again with the claims that are to go; the API
// server keeps them until it is gone. While the disruption budget does not allow it, nothing happens, and a later pass tries
// again.
func (r *CacheNodeReconciler) release(ctx context.Context, s *scope, release storage.Release) error {
	if gone, err := r.removePod(ctx, s, release); err != nil || !gone {
		return err
	}
	for _, name := range release.Claims {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.node.Namespace, Name: name}}
		if err := r.deleteClaim(ctx, s, claim); err != nil {
			return err
		}
	}
	r.Events.Eventf(s.node, nil, corev1.EventTypeNormal, release.Reason, "Release", "%s", truncated(release.Note, 1000))
	return nil
}

// removePod has the pod of a release gone, or going.
func (r *CacheNodeReconciler) removePod(ctx context.Context, s *scope, release storage.Release) (gone bool, err error) {
	i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == release.Pod })
	switch {
	case i < 0: // the cache may not have one yet that was made just now
		err := r.live(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: release.Pod}, &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			s.lookAgain(time.Second)
			return false, err
		}
		return true, nil
	case !release.Force && !s.pods[i].DeletionTimestamp.IsZero():
		return true, nil
	case release.Evict:
		return r.evict(ctx, s, &s.pods[i], release.Note)
	}
	if gone, err = r.deletePod(ctx, &s.pods[i], release.Force); !gone {
		s.lookAgain(time.Second)
	}
	return gone, err
}

// deleteClaim deletes a claim that is still the one that was looked at.
func (r *CacheNodeReconciler) deleteClaim(ctx context.Context, s *scope, claim *corev1.PersistentVolumeClaim) error {
	i := slices.IndexFunc(s.claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == claim.Name })
	if i < 0 {
		return nil
	}
	err := r.Delete(ctx, claim, client.Preconditions{UID: &s.claims[i].UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// deletePod deletes a pod that does not serve; with force, without waiting for a kubelet that is not there. done is false if
// it is another by now.
func (r *CacheNodeReconciler) deletePod(ctx context.Context, pod *corev1.Pod, force bool) (done bool, err error) {
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	err = r.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, options...)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil || apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// evictRetry is when to ask again for an eviction that the disruption budget does not allow now.
const evictRetry = 5 * time.Second

// evict lets a pod go, if the disruption budget allows it now. done is false while it does not.
func (r *CacheNodeReconciler) evict(ctx context.Context, s *scope, pod *corev1.Pod, why string) (done bool, err error) {
	// Asked first, as client-go would go on asking by itself, and hold up other CacheNodes.
	budget := &policyv1.PodDisruptionBudget{}
	if err := r.get(ctx, client.ObjectKeyFromObject(s.node), budget); err != nil {
		return false, client.IgnoreNotFound(err) // it is made again, and then looked at
	}
	if isReady(pod) && (budget.Status.DisruptionsAllowed < 1 || budget.Status.ObservedGeneration < budget.Generation) {
		s.evicting = fmt.Sprintf("%s waits for the disruption budget: %s", pod.Name, why)
		s.lookAgain(evictRetry)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, evictRetry)
	defer cancel()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err = r.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case apierrors.IsTooManyRequests(err), errors.Is(err, context.DeadlineExceeded):
		s.evicting = fmt.Sprintf("%s waits for the disruption budget: %s", pod.Name, why)
		s.lookAgain(evictRetry)
		return false, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or another by now
		s.lookAgain(time.Second)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("evict %s: %w", pod.Name, err)
	}
	return true, nil
}

// replace has the next pod made anew, from the template that the StatefulSet has now.
func (r *CacheNodeReconciler) replace(ctx context.Context, s *scope) error {
	if s.decision.Replace == "" || s.remaking {
		return nil
	}
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Name != s.decision.Replace || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		done, err := r.evict(ctx, s, pod, "it is to be made anew from the new pod template")
		if err != nil || !done {
			return err
		}
		r.Events.Eventf(s.node, pod, corev1.EventTypeNormal, "PodReplaced", "Replace", "%s is made anew from the new pod template", pod.Name)
	}
	return nil
}
