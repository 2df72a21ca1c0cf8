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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// evictRetry is the time after which the operator retries an eviction that the disruption budget did not allow.
const evictRetry = 5 * time.Second

// Evict evicts a pod if the disruption budget allows it now. done is false if the budget does not allow it, or if the
// pod has changed.
func (e *Executor) Evict(ctx context.Context, pod *corev1.Pod, why string) (done bool, err error) {
	// The budget is checked first, because client-go retries a refused eviction. During these retries, other CacheNodes
	// would have to wait.
	budget := &policyv1.PodDisruptionBudget{}
	if err := e.Get(ctx, client.ObjectKeyFromObject(e.CacheNode), budget); err != nil {
		return false, client.IgnoreNotFound(err) // the operator recreates the budget, which triggers another pass
	}
	if budget.Annotations[naming.AnnotationEvictions] == naming.EvictionsNeedCordon && storage.IsReady(pod) {
		return e.evictAlone(ctx, pod, why)
	}
	isAllowed := budget.Status.DisruptionsAllowed >= 1 && budget.Status.ObservedGeneration >= budget.Generation
	if storage.IsReady(pod) && !isAllowed {
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
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the pod is gone or was recreated
		e.again(time.Second)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("evict %s: %w", pod.Name, err)
	}
	return true, nil
}

// evictAlone deletes a pod if the disruption budget in the spec allows the deletion. The operator uses evictAlone while
// the PodDisruptionBudget allows no evictions, so nobody else can evict a ready pod at this time. Counting the pods on
// the API server is therefore as reliable as reading the status of the PodDisruptionBudget.
func (e *Executor) evictAlone(ctx context.Context, pod *corev1.Pod, why string) (done bool, err error) {
	pods := &corev1.PodList{}
	name := e.CacheNode.Name
	err = e.Live.List(ctx, pods, client.InNamespace(pod.Namespace), client.MatchingLabels(naming.PodSelector(name)))
	if err != nil {
		return false, err
	}
	if storage.Spare(e.CacheNode, pods.Items) < 1 {
		e.wait(pod, why)
		return false, nil
	}
	if done, err = e.deletePod(ctx, pod, false); !done {
		e.again(time.Second)
	}
	return done, err
}

func (e *Executor) wait(pod *corev1.Pod, why string) {
	e.Waiting = fmt.Sprintf("%s waits for the disruption budget: %s", pod.Name, why)
	e.again(evictRetry)
}
