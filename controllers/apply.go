package controllers

import (
	"context"
	"encoding/json"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/status"
)

func (r *CacheNodeReconciler) applier() apply.Applier {
	return apply.Applier{Client: r.Client, Live: r.Live}
}

// apply writes the objects. If the API server calls an object invalid, the cause is in the spec. Objects that can be
// refused are checked before the first write, or are written first, so that nothing of a refused spec takes effect.
func (r *CacheNodeReconciler) apply(ctx context.Context, p *pass) error {
	applier := r.applier()
	applier.Absent = p.isAbsent
	objects := manifest.Build(manifest.Input{
		CacheNode: p.effective, Config: p.offer, Certificates: p.certificates, Template: p.template, Volumes: p.podVolumes(),
		Keep: int32(p.sharing.Keep), Guard: p.sharing.Guard, //nolint:gosec // a number of pods
	})
	remake := isToBeRemade(p.statefulSet, objects)
	for _, object := range objects[1:] {
		if !manifest.CanBeRefused(object) {
			continue
		}
		if err := refused(applier.Check(ctx, checked(object, remake))); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if _, ok := object.(*appsv1.StatefulSet); ok && remake {
			p.remaking = true
			return r.orphan(ctx, p)
		}
		live, outcome, err := applier.Apply(ctx, object)
		if err != nil {
			return refused(err)
		}
		if outcome != apply.Unchanged {
			log.FromContext(ctx).Info(string(outcome), "kind", live.GetKind(), "object", live.GetName())
		}
		if _, ok := object.(*appsv1.StatefulSet); ok {
			p.statefulSet = &appsv1.StatefulSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, p.statefulSet); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused turns an error that calls the object itself wrong into a problem of the spec, in the words of the API server.
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

// openBudget runs while the spec is not accepted. Who owns keys is not decided then, so a drain would wait for a
// hand-over that never begins.
func (r *CacheNodeReconciler) openBudget(ctx context.Context, p *pass) error {
	budget := &policyv1.PodDisruptionBudget{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(p.cacheNode), budget); err != nil {
		return client.IgnoreNotFound(err)
	}
	if manifest.GuardOf(budget) == fleet.Unguarded {
		return nil
	}
	in := manifest.Input{CacheNode: effective.CacheNode{CacheNode: p.cacheNode.DeepCopy()}}
	_, _, err := r.applier().Apply(ctx, manifest.PodDisruptionBudget(in))
	return err
}

// keepStatefulSet runs while the spec is not accepted. It keeps a StatefulSet with the template that was accepted last,
// so that missing pods are recreated.
func (r *CacheNodeReconciler) keepStatefulSet(ctx context.Context, p *pass) error {
	template := manifest.Template{}
	if json.Unmarshal([]byte(p.offered.template), &template) != nil || template.InputHash == "" {
		return nil // nothing was accepted yet
	}
	cacheNode := effective.CacheNode{CacheNode: p.cacheNode.DeepCopy()}
	if p.statefulSet != nil {
		cacheNode.Spec.Replicas = p.statefulSet.Spec.Replicas
	}
	set := manifest.StatefulSet(manifest.Input{CacheNode: cacheNode, Template: template, Volumes: p.podVolumes()})
	if isToBeRemade(p.statefulSet, []client.Object{set}) {
		return r.orphan(ctx, p)
	}
	if p.statefulSet != nil {
		return nil
	}
	_, _, err := r.applier().Apply(ctx, set)
	return err
}
