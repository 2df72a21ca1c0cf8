package controllers

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses;gateways;httproutes;referencegrants,verbs=list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses/status;gateways/status;httproutes/status,verbs=patch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachepolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch

// GatewayReconciler decides which routes the pods of a CacheNode serve for its Gateways. A pass handles a CacheNode
// with all objects of the Gateway API that belong to it. It writes the Services of the Gateways and the statuses, and
// passes the routes to [CacheNodeReconciler].
type GatewayReconciler struct {
	client.Client
	// Live reads from the API server and bypasses the cache. Backends contains Services and EndpointSlices; see
	// [StripReference]. Certificates contains Secrets of type kubernetes.io/tls; see [CertificateOptions].
	Live                   client.Reader
	Backends, Certificates cache.Cache
	// Watched are the namespaces whose objects can be read; none means all namespaces.
	Watched  []string
	Exchange *GatewayExchange
	// Grants is true if ReferenceGrants can be read. Without them, no reference may cross namespaces.
	Grants bool
	// Policies is true if CachePolicies can be read.
	Policies bool
	// ClusterDomain is the DNS domain of the cluster's Services, usually cluster.local.
	ClusterDomain string
	// newQueue creates the controller's queue; nil means the default queue of controller-runtime. Tests set it.
	newQueue queueFunc
	referred referred
}

// SetupWithManager adds the reconciler to the manager.
func (r *GatewayReconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	b := ctrl.NewControllerManagedBy(mgr).Named("gateway").
		WithOptions(controller.Options{NewQueue: r.newQueue}).
		Watches(&v1alpha1.CacheNode{}, &handler.EnqueueRequestForObject{}, changed).
		Watches(&gw.GatewayClass{}, all, changed).
		Watches(&gw.Gateway{}, all, changed).
		Watches(&gw.HTTPRoute{}, all, changed).
		Watches(&corev1.Namespace{}, all, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		WatchesRawSource(r.Exchange.forGateways())
	other := predicate.Funcs{UpdateFunc: isOtherReference}
	referring := handler.EnqueueRequestsFromMapFunc(r.referred.to)
	for _, kind := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
		b = b.WatchesRawSource(source.Kind(r.Backends, kind, referring, other))
	}
	b = b.WatchesRawSource(source.Kind[client.Object](r.Certificates, &corev1.Secret{}, referring, other))
	if r.Grants {
		b = b.Watches(&gw.ReferenceGrant{}, all, changed)
	}
	if r.Policies {
		b = b.Watches(&v1alpha1.CachePolicy{}, all, changed)
	}
	return b.Complete(r)
}

// all returns the requests for all CacheNodes to which a GatewayClass refers or has referred. Gateways of a class that
// refers to no CacheNode have a request too, for [gateways.NoFleet].
func (r *GatewayReconciler) all(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	names := r.Exchange.withTables()
	classes := &gw.GatewayClassList{}
	if err := r.List(ctx, classes); err != nil {
		return nil
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		if class.Spec.ControllerName != gateways.Controller {
			continue
		}
		if fleet := gateways.FleetOf(class); !slices.Contains(names, fleet) {
			names = append(names, fleet)
		}
	}
	for _, name := range names {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	return requests
}

// Reconcile runs one pass over the Gateways of a CacheNode. Another operator serves the Gateways of a CacheNode in a
// namespace that this one does not watch.
func (r *GatewayReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.NamespacedName != gateways.NoFleet && !r.watches(request.Namespace) {
		return reconcile.Result{}, nil
	}
	cacheNode, err := r.cacheNode(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	state, err := r.read(ctx, request.NamespacedName, cacheNode)
	if err != nil {
		return reconcile.Result{}, err
	}
	var unserved error
	if cacheNode != nil {
		if !r.Exchange.isReported(request.NamespacedName) {
			return reconcile.Result{}, nil // the first pass of the CacheNode causes a pass here
		}
		state.Held = r.Exchange.needed(request.NamespacedName)
		state.Refused = r.Exchange.refusedBy(request.NamespacedName)
		state.IgnoresPolicies = r.Exchange.ignoresPolicies(request.NamespacedName)
		unserved = r.serve(ctx, cacheNode, &state, r.Exchange.held(request.NamespacedName))
	}
	result := gateways.Decide(state)
	if cacheNode != nil {
		r.Exchange.keepRefused(request.NamespacedName, state.Refused, result.Refused)
		undelivered := r.deliver(ctx, cacheNode, state, result)
		if undelivered != nil { // other listeners need not wait for these certificates
			result.Table = result.Table.WithoutCertificates(func(id string) bool { return !state.HasDelivered(id) })
		}
		if !isStale(undelivered) {
			r.Exchange.setTable(request.NamespacedName, result.Table)
		}
		// This is read after the table was set: from now on, the other controller gives the pods no other table without
		// causing a pass here.
		result = result.ServedBy(r.Exchange.running(request.NamespacedName))
		unserved = errors.Join(unserved, undelivered)
	}
	err = errors.Join(unserved, r.writeStatuses(ctx, state, result))
	if isStale(err) {
		return reconcile.Result{RequeueAfter: lateDelay}, nil
	}
	return reconcile.Result{}, err
}

// isStale returns true if a write failed because the cache does not contain the last write yet.
func isStale(err error) bool { return errors.Is(err, apply.ErrStale) || apierrors.IsConflict(err) }

// cacheNode returns a CacheNode; nil if it does not exist, or is being deleted.
func (r *GatewayReconciler) cacheNode(
	ctx context.Context, name types.NamespacedName,
) (cacheNode *v1alpha1.CacheNode, err error) {
	if name == gateways.NoFleet {
		return nil, nil
	}
	cacheNode = &v1alpha1.CacheNode{}
	err = r.Get(ctx, name, cacheNode)
	if apierrors.IsNotFound(err) || err == nil && !cacheNode.DeletionTimestamp.IsZero() {
		r.Exchange.forget(name)
		r.referred.forget(name)
		return nil, nil
	}
	return cacheNode, err
}
