package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cachenode/cachenode-operator/controllers"
)

// kindsInterval is the time between two checks whether a missing kind can be read.
const kindsInterval = 30 * time.Second

// errKindsThere is the error that ends the operator, so that it starts again with the controller for a kind.
var errKindsThere = errors.New("a kind that was missing can be read now: the operator starts again with its controller")

// restartWhen lets the operator run without a controller whose kinds it cannot read. It logs a message, and ends the
// operator as soon as read returns nil. problem is the last error of read; any other error than a missing kind is
// returned.
func restartWhen(mgr ctrl.Manager, read func(context.Context) error, problem error, message string) error {
	if !isMissing(problem) {
		return problem
	}
	ctrl.Log.Info(message, "because", problem.Error())
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(kindsInterval):
			}
			if read(ctx) == nil {
				return errKindsThere
			}
		}
	}))
}

// setupReferences adds the cache of the objects to which CacheNodes and routes refer. endpoints is true if
// EndpointSlices can be read. An older role does not allow it.
func setupReferences(
	mgr ctrl.Manager, namespaces map[string]cache.Config, watched []string,
) (references cache.Cache, endpoints bool, err error) {
	references, err = cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: controllers.StripReference, DefaultNamespaces: namespaces,
	})
	if err == nil {
		err = mgr.Add(references)
	}
	if err != nil {
		return nil, false, err
	}
	read := func(ctx context.Context) error {
		return readAll(ctx, mgr.GetAPIReader(), watched, &discoveryv1.EndpointSliceList{})
	}
	if problem := read(context.Background()); problem != nil {
		return references, false, restartWhen(mgr, read, problem,
			"requests to a headless Service go to its target port: let the operator read EndpointSlices")
	}
	return references, true, nil
}

// readAll checks that the operator can list kinds in the namespaces; an empty list means all namespaces.
func readAll(ctx context.Context, reader client.Reader, namespaces []string, kinds ...client.ObjectList) error {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			if err := reader.List(ctx, kind, client.InNamespace(namespace), client.Limit(1)); err != nil {
				return fmt.Errorf("list %T: %w", kind, err)
			}
		}
	}
	return nil
}

// isMissing returns true if the error means that a kind does not exist, or that the operator lacks permission to read
// it.
func isMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}
