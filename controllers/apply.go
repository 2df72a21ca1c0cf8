package controllers

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/status"
)

func (r *CacheNodeReconciler) applier() apply.Applier {
	return apply.Applier{Client: r.Client, Live: r.Live}
}

// apply writes the objects. If the API server rejects an object as invalid, the cause is in the spec. Objects that the
// API server may reject are checked by a dry run before the first write, or are written first. So no part of a spec
// with this fault takes effect.
func (r *CacheNodeReconciler) apply(ctx context.Context, o observed, in manifest.Input) (done applied, err error) {
	applier := r.applier()
	applier.Absent = o.own.isAbsent
	objects := manifest.Build(in)
	remake := isToBeRemade(o.own.statefulSet, objects)
	for _, object := range objects[1:] {
		if !manifest.CanBeRefused(object) {
			continue
		}
		if err := refused(applier.Check(ctx, checked(object, remake))); err != nil {
			return done, err
		}
	}
	for _, object := range objects {
		if _, ok := object.(*appsv1.StatefulSet); ok && remake {
			done.remaking = true
			return done, deleteSet(ctx, r.Client, o.own.statefulSet)
		}
		live, outcome, err := applier.Apply(ctx, object)
		if err != nil {
			return done, refused(err)
		}
		if outcome != apply.Unchanged {
			log.FromContext(ctx).Info(string(outcome), "kind", live.GetKind(), "object", live.GetName())
		}
		switch object.(type) {
		case *corev1.ConfigMap:
			done.version = live.GetResourceVersion()
		case *appsv1.StatefulSet:
			done.set = &appsv1.StatefulSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, done.set); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// refused returns a problem of the spec if the error means that the object itself is invalid. The problem contains the
// message of the API server. It returns any other error unchanged.
func refused(err error) error {
	if !apply.IsRefused(err) {
		return err
	}
	message := err.Error()
	var text apierrors.APIStatus
	if errors.As(err, &text) {
		message = text.Status().Message
	}
	return &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: message, Stalled: true}
}
