package controllers

import (
	"context"
	"errors"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
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
	// accepted: the spec is right, but waits for a person.
	accepted bool
	// retryAfter is when to look again, where nothing tells that the problem is gone.
	retryAfter time.Duration
}

func (p *problem) Error() string { return p.message }

// validate checks what the API server could not.
func (r *CacheNodeReconciler) validate(_ context.Context, s *scope) error {
	errs := append(validation.Validate(s.node), r.Cluster.Policy.Violations(s.node)...)
	if len(errs) > 0 {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: errs.ToAggregate().Error(), stalled: true}
	}
	return nil
}

// render makes node.json, and from it the configuration with nominal facts: what cannot be rendered is refused here, before
// a pod sees it.
func (r *CacheNodeReconciler) render(ctx context.Context, s *scope) error {
	if err := r.choose(ctx, s); err != nil {
		return err
	}
	wanted, err := agentapi.NewRevision(s.node, s.caBundle, r.Cluster.Domain, r.Cluster.Resolvers)
	if err != nil {
		return err
	}
	if err := r.tryOut(wanted, s.node.Spec.Pod.Resources.Limits.Memory().Value()); err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	plan := shard.NewPlan(tuning.ShardDisks(wanted.Spec.Disks))
	s.wanted, s.plan = wanted, &plan
	return nil
}

// tryOut renders the configuration with nominal facts, unless that was done before: most passes are over what has not changed.
func (r *CacheNodeReconciler) tryOut(wanted agentapi.Revision, memory int64) error {
	key := wanted.ID + " " + strconv.FormatInt(memory, 10)
	if _, ok := r.rendered.Get(key); ok {
		return nil
	}
	nominal := nginxcache.Facts{Resolvers: []string{"192.0.2.1"}, Memory: memory}
	if err := nginxcache.Check(nginxcache.Input{Revision: wanted, Facts: nominal}); err != nil {
		return err
	}
	r.rendered.Add(key, nil)
	return nil
}

// choose fills in what the spec leaves open, for this pass.
func (r *CacheNodeReconciler) choose(ctx context.Context, s *scope) error {
	offer := &corev1.ConfigMap{}
	err := r.getOnce(s)(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: naming.ConfigMap(s.node.Name)}, offer)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if !isOwn(offer, s.node) {
		offer = &corev1.ConfigMap{}
	}
	s.choices = tuning.Resolve(&s.node.Spec, manifest.MemoryTierBefore(offer.Annotations[naming.AnnotationTemplate], s.statefulSet))
	return nil
}

// apply writes the objects. One that the API server calls invalid has its cause in the spec. Those that can be refused are
// checked before the first is written, or are the first, so that of such a spec nothing takes effect.
func (r *CacheNodeReconciler) apply(ctx context.Context, s *scope) error {
	applier := r.applier()
	applier.Absent = s.once.isAbsent
	objects := manifest.Build(manifest.Input{
		CacheNode: s.node, Config: s.offer, Certificates: s.certificates, Template: s.template, Volumes: s.podVolumes(),
	})
	remake := isToBeRemade(s.statefulSet, objects)
	for _, object := range objects[1:] {
		if !manifest.CanBeRefused(object) {
			continue
		}
		err := applier.Check(ctx, checked(object, remake))
		if apply.IsRefused(err) {
			return &problem{reason: v1alpha1.ReasonInvalidSpec, message: refusal(err), stalled: true}
		}
		if err != nil {
			return err
		}
	}
	for _, object := range objects {
		if _, ok := object.(*appsv1.StatefulSet); ok && remake {
			s.remaking = true
			return r.orphan(ctx, s)
		}
		live, outcome, err := applier.Apply(ctx, object)
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
