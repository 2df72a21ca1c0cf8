package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// once reads from the API server in one pass, and does not ask again for what was not there a moment ago. It is for what the
// pass itself has not written yet, and not safe for concurrent use.
type once struct {
	client.Reader
	absent map[string]bool
	// isNew: nothing was ever reported on the CacheNode.
	isNew bool
}

func newOnce(live client.Reader, cacheNode *v1alpha1.CacheNode) *once {
	return &once{Reader: live, absent: map[string]bool{}, isNew: cacheNode.Status.ObservedGeneration < 1}
}

// Get implements [client.Reader].
func (o *once) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	id := identity(key, object)
	if o.absent[id] {
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name)
	}
	err := o.Reader.Get(ctx, key, object, options...)
	o.absent[id] = apierrors.IsNotFound(err)
	return err
}

// isAbsent is true for what was asked for and not there.
func (o *once) isAbsent(object client.Object) bool {
	return o.absent[identity(client.ObjectKeyFromObject(object), object)]
}

func identity(key client.ObjectKey, object client.Object) string {
	return fmt.Sprintf("%T %s", object, key)
}

func (o *once) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return o.Get(ctx, key, object)
}

// get reads from the cache or, what is not there yet, from the API server.
func (r *CacheNodeReconciler) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return cachedOr(ctx, r.Client, r.Live, key, object)
}

// getOnce is get, for what the pass has not written yet. Of a CacheNode that is new, what is not in the cache is taken for
// absent: should it be there after all, package apply finds that out when it is to be made.
func (r *CacheNodeReconciler) getOnce(s *scope) func(context.Context, client.ObjectKey, client.Object) error {
	return func(ctx context.Context, key client.ObjectKey, object client.Object) error {
		if s.once.isNew {
			err := r.Get(ctx, key, object)
			s.once.absent[identity(key, object)] = apierrors.IsNotFound(err)
			return err
		}
		return cachedOr(ctx, r.Client, s.once, key, object)
	}
}

func cachedOr(ctx context.Context, cached, live client.Reader, key client.ObjectKey, object client.Object) error {
	err := cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, key, object)
	}
	return err
}

// live reads from the API server.
func (r *CacheNodeReconciler) live(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return r.Live.Get(ctx, key, object)
}
