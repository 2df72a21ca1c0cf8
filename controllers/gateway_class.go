package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=gatewayclasses.gateway.networking.k8s.io,verbs=get

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses,verbs=patch

// versionInterval is the time after which the version of the Gateway API is read again.
const versionInterval = 10 * time.Minute

// GatewayClassReconciler writes the status of GatewayClasses: whether the CacheNode to which a class refers serves
// Gateways. A class that Gateways name gets a finalizer, because these Gateways would lose their Services and addresses
// with it (Gateway API, GatewayClass).
type GatewayClassReconciler struct {
	client.Client
	// Live reads from the API server and bypasses the cache.
	Live client.Reader
	// Watched are the namespaces whose objects can be read; none means all namespaces.
	Watched []string
	// newQueue creates the controller's queue; nil means the default queue of controller-runtime. Tests set it.
	newQueue queueFunc
}

// SetupWithManager adds the reconciler to the manager.
func (r *GatewayClassReconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("gatewayclass").
		WithOptions(controller.Options{NewQueue: r.newQueue}).
		For(&gw.GatewayClass{}, changed).
		Watches(&v1alpha1.CacheNode{}, handler.EnqueueRequestsFromMapFunc(r.classesOf), changed).
		Watches(&gw.Gateway{}, handler.EnqueueRequestsFromMapFunc(toClass), changed).
		Complete(r)
}

// classesOf returns the requests for the classes that refer to a CacheNode.
func (r *GatewayClassReconciler) classesOf(
	ctx context.Context, cacheNode client.Object,
) (requests []reconcile.Request) {
	classes := &gw.GatewayClassList{}
	if err := r.List(ctx, classes); err != nil {
		return nil
	}
	for i := range classes.Items {
		if gateways.FleetOf(&classes.Items[i]) == client.ObjectKeyFromObject(cacheNode) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&classes.Items[i])})
		}
	}
	return requests
}

// toClass returns the request for the class of a Gateway.
func toClass(_ context.Context, gateway client.Object) []reconcile.Request {
	class := types.NamespacedName{Name: string(gateway.(*gw.Gateway).Spec.GatewayClassName)}
	return []reconcile.Request{{NamespacedName: class}}
}

// Reconcile writes the status and the finalizer of one GatewayClass. It leaves a class alone whose CacheNode is in a
// namespace that the operator does not watch: another operator serves this class.
func (r *GatewayClassReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &gw.GatewayClass{}
	if err := r.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	fleet := gateways.FleetOf(class)
	if class.Spec.ControllerName != gateways.Controller ||
		fleet != gateways.NoFleet && !watches(r.Watched, fleet.Namespace) {
		return reconcile.Result{}, nil
	}
	err := r.finalize(ctx, class)
	if err == nil {
		err = r.report(ctx, class)
	}
	if apierrors.IsConflict(err) { // the cache does not contain the last write yet
		return reconcile.Result{RequeueAfter: lateDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: versionInterval}, nil
}

// report writes the status of a class.
func (r *GatewayClassReconciler) report(ctx context.Context, class *gw.GatewayClass) error {
	var cacheNode *v1alpha1.CacheNode
	if name := gateways.FleetOf(class); name != gateways.NoFleet {
		cacheNode = &v1alpha1.CacheNode{}
		if err := r.Get(ctx, name, cacheNode); apierrors.IsNotFound(err) {
			cacheNode = nil
		} else if err != nil {
			return err
		}
	}
	version, err := r.bundleVersion(ctx)
	if err != nil {
		return err
	}
	after := class.DeepCopy()
	after.Status = gateways.ClassStatus(class, cacheNode, version)
	after.Status.Conditions = follow(class.Status.Conditions, after.Status.Conditions)
	if equality.Semantic.DeepEqual(class.Status, after.Status) {
		return nil
	}
	return writeGatewayStatus(ctx, r.Client, class, after)
}

// finalize adds the finalizer to a class that Gateways name, and removes it from any other class.
func (r *GatewayClassReconciler) finalize(ctx context.Context, class *gw.GatewayClass) error {
	list := &gw.GatewayList{}
	if err := r.List(ctx, list); err != nil {
		return err
	}
	before := class.DeepCopy()
	isUsed := slices.ContainsFunc(list.Items, func(g gw.Gateway) bool {
		return string(g.Spec.GatewayClassName) == class.Name
	})
	switch {
	case !isUsed:
		controllerutil.RemoveFinalizer(class, gw.GatewayClassFinalizerGatewaysExist)
	case class.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(class, gw.GatewayClassFinalizerGatewaysExist)
	}
	if slices.Equal(before.Finalizers, class.Finalizers) {
		return nil
	}
	return r.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(naming.FieldManager))
}

// bundleVersion returns the version of the Gateway API whose CustomResourceDefinitions are installed; "" if it is not
// known.
func (r *GatewayClassReconciler) bundleVersion(ctx context.Context) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	err := r.Live.Get(ctx, client.ObjectKey{Name: "gatewayclasses." + gw.GroupName}, crd)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	return crd.Annotations["gateway.networking.k8s.io/bundle-version"], err
}
