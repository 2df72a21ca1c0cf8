package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/controllers"
)

// setupPurges adds the controller of CachePurges. The chart or the CustomResourceDefinitions can be older than the
// operator. If the kind is missing, or if the operator lacks permission to read it, the operator still manages
// CacheNodes.
func setupPurges(mgr ctrl.Manager, purges *controllers.PurgeReconciler, namespaces []string) error {
	read := func(ctx context.Context) error {
		return readAll(ctx, mgr.GetAPIReader(), namespaces, &v1alpha1.CachePurgeList{})
	}
	problem := read(context.Background())
	if problem == nil {
		return purges.SetupWithManager(mgr)
	}
	return restartWhen(mgr, read, problem,
		"CachePurges are not carried out: upgrade the chart and its CustomResourceDefinitions")
}
