package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// problem is an error that the user can mend and the operator cannot.
type problem struct {
	reason, message string
	// stalled: only an edit of the spec helps. Otherwise the problem heals when something else changes.
	stalled bool
	// retryAfter is when to look again, where nothing tells that the problem is gone.
	retryAfter time.Duration
}

func (p *problem) Error() string { return p.message }

// validate checks what the API server could not.
func (r *CacheNodeReconciler) validate(_ context.Context, s *scope) error {
	if errs := validation.Validate(s.node); len(errs) > 0 {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: errs.ToAggregate().Error(), stalled: true}
	}
	return nil
}

// render makes the configuration from the spec and the facts.
func (r *CacheNodeReconciler) render(_ context.Context, s *scope) error {
	spec := s.node.Spec
	plan := shard.NewPlan(tuning.ShardDisks(spec.Disks))
	facts := r.Facts
	facts.Workers = tuning.Workers(spec.Pod.Resources.Limits.Cpu())
	config, err := nginxcache.Render(nginxcache.Input{
		Namespace: s.node.Namespace, Spec: spec, Plan: plan, CABundle: s.caBundle, Facts: facts,
	})
	if err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	s.config = config
	for _, disk := range plan.Disks() {
		share := plan.Share(disk)
		s.shares = append(s.shares, v1alpha1.DiskStatus{Name: disk, Share: fmt.Sprintf("%d.%02d%%", share/100, share%100)})
	}
	return nil
}

// apply writes the objects. One that the API server calls invalid has its cause in the spec. All are checked before the
// first is written, so that of a spec that is refused nothing takes effect.
func (r *CacheNodeReconciler) apply(ctx context.Context, s *scope) error {
	applier := apply.Applier{Client: r.Client, Live: r.Live}
	objects := manifest.Build(manifest.Input{Node: s.node, Config: s.config, CABundle: s.caBundle})
	for _, object := range objects {
		err := applier.Check(ctx, object)
		if apply.IsRefused(err) {
			return &problem{reason: v1alpha1.ReasonInvalidSpec, message: refusal(err), stalled: true}
		}
		if err != nil {
			return err
		}
	}
	for _, object := range objects {
		live, outcome, err := applier.Apply(ctx, object)
		if taken, ok := errors.AsType[*apply.TakenError](err); ok {
			return &problem{
				reason:     v1alpha1.ReasonNameTaken,
				message:    taken.Error() + ": it is left alone; delete it, or give the CacheNode another name",
				retryAfter: time.Minute, // objects of others are not watched
			}
		}
		if apply.IsRefused(err) {
			return &problem{reason: v1alpha1.ReasonInvalidSpec, message: refusal(err), stalled: true}
		}
		if err != nil {
			return err
		}
		if outcome != apply.Unchanged {
			log.FromContext(ctx).Info(string(outcome), "kind", live.GetKind(), "object", live.GetName())
		}
		if _, ok := object.(*appsv1.StatefulSet); ok {
			s.statefulSet = &appsv1.StatefulSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, s.statefulSet); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusal is the API server's own text, without our wrapping.
func refusal(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// prune deletes ConfigMaps with revisions that no pod runs any more. In the middle of a rollout it deletes none.
func (r *CacheNodeReconciler) prune(ctx context.Context, s *scope) error {
	if !rolledOut(s.statefulSet) {
		return nil
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	selector := client.MatchingLabels(naming.PodSelector(s.node.Name))
	if err := r.List(ctx, pods, client.InNamespace(s.node.Namespace), selector); err != nil {
		return err
	}
	used := map[string]bool{naming.ConfigMap(s.node.Name, s.config.Revision): true}
	for _, pod := range pods.Items {
		used[naming.ConfigMap(s.node.Name, pod.Annotations[naming.AnnotationConfigRevision])] = true
	}
	configMaps := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	deleted, err := apply.Prune(ctx, r.Client, s.node, []client.Object{configMaps}, selector,
		func(o client.Object) bool { return used[o.GetName()] })
	for _, object := range deleted {
		log.FromContext(ctx).Info("deleted", "kind", "ConfigMap", "object", object.GetName())
	}
	return err
}
