package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/controllers"
)

// setupGateways adds the controllers of GatewayClasses and Gateways, and returns their exchange with the controller of
// CacheNodes. It returns nil if the kinds of the Gateway API are missing, or if the operator lacks permission to read
// them. The operator then still manages CacheNodes. ReferenceGrants and CachePolicies may be
// missing although the other kinds are there.
// backends is the cache of setupReferences.
func setupGateways(
	mgr ctrl.Manager, backends cache.Cache, clusterDomain string, namespaces map[string]cache.Config, watched []string,
) (*controllers.GatewayExchange, error) {
	read := func(ctx context.Context) error {
		return errors.Join(
			readAll(ctx, mgr.GetAPIReader(), nil, &gw.GatewayClassList{}, &corev1.NamespaceList{}),
			readAll(ctx, mgr.GetAPIReader(), watched, &gw.GatewayList{}, &gw.HTTPRouteList{}, &corev1.ServiceList{},
				&discoveryv1.EndpointSliceList{}, &corev1.SecretList{}))
	}
	if problem := read(context.Background()); problem != nil {
		return nil, restartWhen(mgr, read, problem,
			"Gateways are not served: install the CustomResourceDefinitions of the Gateway API to use them")
	}
	readGrants := func(ctx context.Context) error {
		return readAll(ctx, mgr.GetAPIReader(), watched, &gw.ReferenceGrantList{})
	}
	noGrants := readGrants(context.Background())
	if noGrants != nil {
		if err := restartWhen(mgr, readGrants, noGrants, "no reference of a route or a Gateway may cross namespaces: "+
			"install the CustomResourceDefinition of ReferenceGrants to allow some"); err != nil {
			return nil, err
		}
	}
	readPolicies := func(ctx context.Context) error {
		return readAll(ctx, mgr.GetAPIReader(), watched, &v1alpha1.CachePolicyList{})
	}
	noPolicies := readPolicies(context.Background())
	if noPolicies != nil {
		if err := restartWhen(mgr, readPolicies, noPolicies,
			"CachePolicies are not read: upgrade the chart and its CustomResourceDefinitions"); err != nil {
			return nil, err
		}
	}
	certificates, err := cache.New(mgr.GetConfig(), controllers.CertificateOptions(mgr, namespaces))
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(certificates); err != nil {
		return nil, err
	}
	reconciler := &controllers.GatewayReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Backends: backends, Certificates: certificates,
		Watched: watched, Exchange: controllers.NewGatewayExchange(), Grants: noGrants == nil, Policies: noPolicies == nil,
		ClusterDomain: clusterDomain,
	}
	classes := &controllers.GatewayClassReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Watched: watched,
	}
	return reconciler.Exchange, errors.Join(reconciler.SetupWithManager(mgr), classes.SetupWithManager(mgr))
}
