package controllers

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes/status,verbs=patch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods;secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// CacheNodeReconciler makes the objects of a CacheNode and reports on them.
type CacheNodeReconciler struct {
	client.Client
	// Live reads from the API server, past the cache: what a CacheNode refers to is watched as metadata only.
	Live   client.Reader
	Events events.EventRecorder
	// Facts of the cluster, the same for every CacheNode.
	Facts nginxcache.Facts
}

// Reconcile brings one CacheNode's objects to what its spec asks for. A wrong spec or a missing reference is no error
// here: it is a condition, and the pass after the next change sees to it.
func (r *CacheNodeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &v1alpha1.CacheNode{}
	if err := r.Get(ctx, request.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !node.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // the garbage collector removes what it owns
	}
	s := &scope{node: node}
	err := r.run(ctx, s)
	if p, ok := errors.AsType[*problem](err); ok {
		s.problem, err = p, nil
		log.FromContext(ctx).Info("not accepted", "reason", p.reason, "message", p.message)
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return reconcile.Result{}, err // it passes, or the next try says more: no condition flaps for it
	}
	s.failure = err
	var result reconcile.Result
	if s.problem != nil {
		result.RequeueAfter = s.problem.retryAfter
	}
	return result, errors.Join(err, r.report(ctx, s))
}

// scope is what one pass knows. Each field says which phase sets it.
type scope struct {
	node *v1alpha1.CacheNode
	// caBundle: resolve.
	caBundle string
	// config and shares: render.
	config nginxcache.Config
	shares []v1alpha1.DiskStatus
	// statefulSet: apply, or report where apply was not reached; nil while there is none.
	statefulSet *appsv1.StatefulSet
	// problem: what keeps the spec from being accepted; failure: what the operator is not allowed to do. Reconcile sets both.
	problem *problem
	failure error
}

// run goes through the phases and stops at the first that fails: nothing is applied of a spec that is not accepted.
func (r *CacheNodeReconciler) run(ctx context.Context, s *scope) error {
	for _, phase := range []func(context.Context, *scope) error{r.validate, r.resolve, r.render, r.apply, r.prune} {
		if err := phase(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// SetupWithManager starts the reconciler. references is a cache of its own, without the label selector of the manager's,
// for the Secrets and ConfigMaps that CacheNodes refer to.
func (r *CacheNodeReconciler) SetupWithManager(mgr ctrl.Manager, references cache.Cache) error {
	if err := indexReferences(mgr); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CacheNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		WatchesMetadata(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podToCacheNode),
			builder.WithPredicates(podComesOrGoes))
	for _, source := range r.referenceSources(references) {
		b = b.WatchesRawSource(source)
	}
	return b.Complete(r)
}

// podComesOrGoes: what happens to a pod in between shows in the StatefulSet's status.
var podComesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func podToCacheNode(_ context.Context, pod client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: pod.GetNamespace(),
		Name:      pod.GetLabels()[naming.LabelInstance],
	}}}
}

// CacheOptions restricts the manager's cache to what the operator makes and strips what nobody reads.
func CacheOptions() cache.Options {
	mine := cache.ByObject{Label: naming.Managed()}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}:           mine,
			&corev1.ConfigMap{}:             mine,
			&corev1.Service{}:               mine,
			&corev1.Pod{}:                   mine,
			&policyv1.PodDisruptionBudget{}: mine,
		},
	}
}
