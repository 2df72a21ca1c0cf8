package controllers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
)

// assign writes the revisions that pods are to take on the pods. A change of an annotation makes the kubelet refresh the
// pod's volumes at once, the ConfigMap's too.
func (r *CacheNodeReconciler) assign(ctx context.Context, s *scope) error {
	retry := s.node.Annotations[naming.AnnotationRetry]
	for i := range s.pods {
		pod := &s.pods[i]
		revision, assigned := s.decision.Assign[pod.Name]
		nudged := false
		for _, name := range s.decision.Nudge {
			nudged = nudged || name == pod.Name
		}
		if !pod.DeletionTimestamp.IsZero() || (!assigned && !nudged) {
			continue
		}
		annotations := map[string]string{naming.AnnotationRevision: pod.Annotations[naming.AnnotationRevision]}
		if assigned {
			annotations[naming.AnnotationRevision] = revision
		}
		// The same for a while, so that a pass that has not seen the write of the one before writes nothing new.
		annotations[naming.AnnotationNonce] = strconv.FormatInt(s.now.Unix()/int64(rollout.NudgeAfter/time.Second), 10)
		if retry != "" {
			annotations[naming.AnnotationRetry] = retry
		}
		if err := r.annotate(ctx, pod, annotations); err != nil {
			return err
		}
		r.Agents.assigned(client.ObjectKeyFromObject(pod), s.now, nudged)
		log.FromContext(ctx).Info("assigned", "pod", pod.Name, "revision", annotations[naming.AnnotationRevision], "again", nudged)
	}
	return nil
}

// annotate applies our annotations on a pod. A pod that is gone, or another by now, is none of this pass's.
func (r *CacheNodeReconciler) annotate(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	u.SetNamespace(pod.Namespace)
	u.SetName(pod.Name)
	u.SetUID(pod.UID)
	u.SetAnnotations(annotations)
	err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(naming.FieldManager), client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// assigned notes when a pod was given a revision, or nudged.
func (a *Agents) assigned(pod types.NamespacedName, at time.Time, nudged bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.known[pod]; known != nil {
		known.AssignedAt = at
		known.Nudges++
		if !nudged {
			known.Nudges = 0
		}
	}
}

// evictRetry is when to ask again for an eviction that the disruption budget does not allow now.
const evictRetry = 5 * time.Second

// evict lets a pod go whose disk a person has repaired: the kernel keeps a file system that was shut down dead as long as
// the pod has it mounted. One at a time, and only as the disruption budget allows. The annotation goes with the pod.
func (r *CacheNodeReconciler) evict(ctx context.Context, s *scope) error {
	for i := range s.pods {
		pod := &s.pods[i]
		disk := repaired(pod, s.observations[pod.Name])
		if disk == "" || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		// Asked first, as client-go would go on asking by itself, and hold up other CacheNodes.
		budget := &policyv1.PodDisruptionBudget{}
		if err := r.get(ctx, client.ObjectKeyFromObject(s.node), budget); err != nil {
			return client.IgnoreNotFound(err) // it is made again, and then looked at
		}
		if budget.Status.DisruptionsAllowed < 1 || budget.Status.ObservedGeneration < budget.Generation {
			s.evicting = fmt.Sprintf("%s waits for the disruption budget to be evicted, so that %s can come back", pod.Name, disk)
			s.lookAgain(evictRetry)
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, evictRetry)
		defer cancel()
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		err := r.SubResource("eviction").Create(ctx, pod, eviction)
		switch {
		case apierrors.IsTooManyRequests(err), errors.Is(err, context.DeadlineExceeded):
			s.lookAgain(evictRetry)
			return nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			continue
		case err != nil:
			return fmt.Errorf("evict %s: %w", pod.Name, err)
		}
		r.Events.Eventf(s.node, pod, corev1.EventTypeNormal, "Evicted", "Evict", "evicted %s, so that its repaired disk %s can come back", pod.Name, disk)
		return nil // the next one when this one is back
	}
	return nil
}

// repaired is a disk that a person has declared repaired and that is still out of use; "" if there is none.
func repaired(pod *corev1.Pod, seen Observation) string {
	for name := range strings.SplitSeq(pod.Annotations[naming.AnnotationRepaired], ",") {
		for _, d := range seen.Report.Disks {
			if d.Name == strings.TrimSpace(name) && d.Status == failed {
				return d.Name
			}
		}
	}
	return ""
}
