package controllers

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// renderings is the number of successfully rendered revisions that the operator remembers.
const renderings = 8192

// retryDelay is the first back-off after a pass that failed. The back-off doubles up to retryMost.
const (
	retryDelay = 5 * time.Millisecond
	retryMost  = time.Minute
)

// SetupWithManager adds the reconciler to the manager. referred is a separate cache for the objects to which CacheNodes
// and routes refer; see [StripReference]. Unlike the manager's cache, referred has no label selector.
func (r *CacheNodeReconciler) SetupWithManager(mgr ctrl.Manager, referred cache.Cache) error {
	if err := errors.Join(indexReferences(mgr), indexInstances(mgr)); err != nil {
		return err
	}
	if r.Endpoints {
		if err := indexServices(referred); err != nil {
			return err
		}
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.references = references{live: r.Live, services: services{
		cache: referred, watched: r.Cluster.Namespaces, endpoints: r.Endpoints,
	}}
	r.began = sync.OnceValue(r.Clock.Now)
	r.rendered = lru.New(renderings)
	r.late = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](lateDelay, latestDelay)
	retries := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryDelay, retryMost),
		// The same limit as controller-runtime's default.
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(10, 100)},
	)
	edited := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	b := ctrl.NewControllerManagedBy(mgr).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: retries, NewQueue: r.newQueue}).
		For(&v1alpha1.CacheNode{}, builder.WithPredicates(edited)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)). // a Secret may have no owner
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(r.thoseWhoWantVolumes),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: func(event.UpdateEvent) bool { return false },
			})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allCacheNodes), builder.WithPredicates(nodeChanged())).
		WatchesRawSource(r.Agents)
	if r.Exchange != nil {
		b = b.WatchesRawSource(r.Exchange.forCacheNodes())
	}
	for _, source := range r.referenceSources(referred) {
		b = b.WatchesRawSource(source)
	}
	return b.Complete(r)
}

func (r *CacheNodeReconciler) allCacheNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	cacheNodes := &v1alpha1.CacheNodeList{}
	if err := r.List(ctx, cacheNodes); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, len(cacheNodes.Items))
	for i := range cacheNodes.Items {
		requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cacheNodes.Items[i])}
	}
	return requests
}

// thoseWhoWantVolumes returns the CacheNodes that wait for a free path or for room under the limit of volumes. After
// the deletion of any volume, the operator may be able to create a volume for one of these CacheNodes.
func (r *CacheNodeReconciler) thoseWhoWantVolumes(context.Context, client.Object) (requests []reconcile.Request) {
	r.since.Range(func(name, left any) bool {
		if left.(lasting).wantsVolumes {
			requests = append(requests, reconcile.Request{NamespacedName: name.(client.ObjectKey)})
		}
		return true
	})
	return requests
}

// nodeChanged passes the changes of a node that can matter to a CacheNode, and drops the node's heartbeats.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	}}
}

// CacheOptions restricts the manager's cache to nodes, StorageClasses and the operator's own objects. The cache does
// not store fields that the operator does not read.
func CacheOptions() cache.Options {
	mine := cache.ByObject{Label: naming.Managed()}
	pods := cache.ByObject{Label: naming.Managed(), Transform: stripPod}
	return cache.Options{
		DefaultTransform: stripTenants, // for all kinds: an entry for CachePurge would need its CRD, which can be missing
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}:           mine,
			&corev1.ConfigMap{}:             mine,
			&corev1.Service{}:               mine,
			&corev1.Secret{}:                mine,
			&corev1.Pod{}:                   pods,
			&policyv1.PodDisruptionBudget{}: mine,
			&corev1.PersistentVolumeClaim{}: mine,
			&corev1.PersistentVolume{}:      mine,
			&storagev1.StorageClass{}:       {}, // any of these few can decide whether claims may grow
			&corev1.Node{}:                  {Transform: stripNode},
		},
	}
}

// stripTenants removes fields that the operator does not need in the cache and that tenants can make long.
func stripTenants(object any) (any, error) {
	switch o := object.(type) {
	case *v1alpha1.CachePurge:
		stripPurge(o)
	case *v1alpha1.CacheNode:
		maps.DeleteFunc(o.Annotations, func(key, _ string) bool {
			return !strings.Contains(key, v1alpha1.GroupVersion.Group+"/")
		})
	case *corev1.ConfigMap:
		delete(o.BinaryData, naming.PurgesKey) // the journals of purges are read from the API server
	}
	return cache.TransformStripManagedFields()(object)
}

// stripPod keeps only the fields of a pod that the operator reads, because the cache stores thousands of pods.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes = append(volumes, v)
		}
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Volumes: volumes}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs, Conditions: pod.Status.Conditions,
		InitContainerStatuses: status.Lagging(pod.Status.InitContainerStatuses),
		ContainerStatuses:     status.Lagging(pod.Status.ContainerStatuses),
	}
	return pod, nil
}

// stripNode keeps only the fields of a node that the operator reads. It drops all fields that change with each
// heartbeat.
func stripNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node.ManagedFields, node.Annotations = nil, nil
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints}
	var conditions []corev1.NodeCondition
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			conditions = append(conditions, corev1.NodeCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	node.Status = corev1.NodeStatus{Conditions: conditions}
	return node, nil
}
