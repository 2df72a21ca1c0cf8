// Package executor carries out what package storage has planned. Each action is safe to repeat. An action names the UID
// or the resource version of its object. If the object has changed since the decision, the executor leaves it alone,
// and the next pass makes a new plan for it.
//
// It imports storage, manifest and apply. For a new kind of action, add a method that is safe to repeat.
package executor

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// createAgain is the time until the next pass if a pass does not create all volumes.
const createAgain = 100 * time.Millisecond

// Executor acts for one CacheNode in one pass. It is not safe for concurrent use.
type Executor struct {
	client.Client
	// Live reads from the API server, not from the informer cache.
	Live      client.Reader
	CacheNode *v1alpha1.CacheNode
	// Waiting says which pod waits for the disruption budget, and why; "" if no pod waits. The executor sets it.
	Waiting string
	// After is the time after which the operator must try again; 0 means never. The executor sets it.
	After time.Duration
	// Released are the releases that were carried out completely. The executor sets it.
	Released []storage.Release
}

func (e *Executor) again(after time.Duration) {
	if e.After == 0 || after < e.After {
		e.After = after
	}
}

func (e *Executor) applier() apply.Applier { return apply.Applier{Client: e.Client, Live: e.Live} }

// Keep carries out the actions that keep pods running. If an action fails for one pod or volume, the actions for the
// others still follow. If a scout cannot be created, for example because a quota is exceeded, the error is only logged,
// because the caches work without scouts.
func (e *Executor) Keep(ctx context.Context, keep storage.Keep) error {
	errs := []error{e.release(ctx, keep.Releases)}
	for _, volume := range keep.Offer {
		errs = append(errs, e.offer(ctx, volume))
	}
	for _, object := range keep.Scouts {
		if _, _, err := e.applier().Apply(ctx, object); err != nil {
			log.FromContext(ctx).Error(err, "create a scout", "object", object.GetName())
			break
		}
	}
	for _, object := range keep.Spent {
		errs = append(errs, client.IgnoreNotFound(e.Delete(ctx, object, client.GracePeriodSeconds(0))))
	}
	return errors.Join(errs...)
}

// Follow carries out the releases and the changes of volumes that the spec requires. It does not set follow.Replicas;
// the caller does.
func (e *Executor) Follow(ctx context.Context, follow storage.Follow) error {
	if err := e.release(ctx, follow.Releases); err != nil {
		return err
	}
	if err := e.applyVolumes(ctx, follow); err != nil {
		return err
	}
	if follow.More {
		e.again(createAgain)
	}
	return e.deleteVolumes(ctx, follow.Delete)
}

// TidyClaims deletes unwanted claims, requests more space for claims whose disks have a larger size in the spec, and
// sets owners.
func (e *Executor) TidyClaims(ctx context.Context, follow storage.Follow) error {
	for _, claim := range follow.Unwanted {
		if err := e.deleteClaim(ctx, claim); err != nil {
			return err
		}
		log.FromContext(ctx).Info("deleted a claim", "claim", claim.Name)
	}
	for _, growth := range follow.Grow {
		before := growth.Claim.DeepCopy()
		claim := growth.Claim.DeepCopy()
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: growth.Size}
		err := e.Patch(ctx, claim, client.MergeFrom(before), client.FieldOwner(naming.FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		log.FromContext(ctx).Info("a claim grows", "claim", claim.Name, "size", growth.Size.String())
	}
	for _, own := range follow.Own {
		claim := own.Claim.DeepCopy()
		claim.OwnerReferences = own.Owners
		if err := e.patchUnchanged(ctx, claim, own.Claim); err != nil {
			return err
		}
	}
	return nil
}

// patchUnchanged patches an object only if it has not changed since it was read. A change triggers another pass.
func (e *Executor) patchUnchanged(ctx context.Context, object, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := e.Patch(ctx, object, patch, client.FieldOwner(naming.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
