package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/controllers"
)

// purgeInterval is the time between two checks whether CachePurges can be read.
const purgeInterval = 30 * time.Second

// errPurgesThere is the error that ends the operator, so that it starts again with a controller for CachePurges.
var errPurgesThere = errors.New("CachePurges can be read now: the operator starts again to carry them out")

// setupPurges adds the controller of CachePurges. The chart or the CustomResourceDefinitions can be older than the
// operator. If the kind is missing, or if the operator lacks permission to read it, the operator still manages
// CacheNodes.
func setupPurges(mgr ctrl.Manager, purges *controllers.PurgeReconciler, namespaces []string) error {
	problem := readPurges(context.Background(), mgr.GetAPIReader(), namespaces)
	if problem == nil {
		return purges.SetupWithManager(mgr)
	}
	if !isMissing(problem) {
		return problem
	}
	ctrl.Log.Info("CachePurges are not carried out: upgrade the chart and its CustomResourceDefinitions",
		"because", problem.Error())
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(purgeInterval):
			}
			if readPurges(ctx, mgr.GetAPIReader(), namespaces) == nil {
				return errPurgesThere
			}
		}
	}))
}

// readPurges checks that the operator can list CachePurges in the namespaces; an empty list means all namespaces.
func readPurges(ctx context.Context, reader client.Reader, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		err := reader.List(ctx, &v1alpha1.CachePurgeList{}, client.InNamespace(namespace), client.Limit(1))
		if err != nil {
			return fmt.Errorf("list CachePurges: %w", err)
		}
	}
	return nil
}

// isMissing returns true if the error means that the kind does not exist, or that the operator lacks permission to
// read it.
func isMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}
