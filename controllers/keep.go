package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
)

// keep takes the steps that keep pods running, even if the spec is not accepted. Pods on lost nodes are recreated on
// other nodes. If a disk cannot be mounted, the pod starts without this disk. Disks that are back, replaced or repaired
// are used again. An error in one of these steps does not stop the others.
func (r *CacheNodeReconciler) keep(ctx context.Context, s scope, o observed, out *outcome) error {
	return errors.Join(
		r.execute(s, out, func(e *executor.Executor) error { return e.Keep(ctx, o.storage.actions.Keep) }),
		r.tellDisks(ctx, s, o, out),
	)
}

// tellDisks writes two lists into annotations of each pod: the disks that the agent must not use, and the caches that
// it must delete.
func (r *CacheNodeReconciler) tellDisks(ctx context.Context, s scope, o observed, out *outcome) error {
	drained := storage.ReadVerbs(s.cacheNode).Drained
	var errs []error
	for i := range o.pods {
		pod := &o.pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		abandoned, err := r.abandonedCaches(ctx, s, pod, o.agents.byPod[pod.Name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.tellPod(ctx, s, pod, map[string]string{
			naming.AnnotationDrained: strings.Join(drained[pod.Name], ","), naming.AnnotationEmpty: abandoned,
		}, out))
	}
	return errors.Join(errs...)
}

// tellPod writes annotations on a pod if the pod does not have them yet.
func (r *CacheNodeReconciler) tellPod(
	ctx context.Context, s scope, pod *corev1.Pod, told map[string]string, out *outcome,
) error {
	before, changes := map[string]string{}, false
	for key, value := range told {
		before[key] = pod.Annotations[key]
		changes = changes || before[key] != value
	}
	if !changes {
		return nil
	}
	if err := r.annotate(ctx, s, pod, told); err != nil {
		return err
	}
	out.tell(status.Told(pod.Name, before, told)...)
	return nil
}

// abandonedCaches returns the value of the annotation AnnotationEmpty for a pod: the foreign caches whose CacheNodes no
// longer exist. The pod's agent found these caches on volumes that the operator made. Until the agent has answered this
// operator, the value does not change.
func (r *CacheNodeReconciler) abandonedCaches(
	ctx context.Context, s scope, pod *corev1.Pod, seen agents.Observation,
) (string, error) {
	if seen.Answered.IsZero() {
		return pod.Annotations[naming.AnnotationEmpty], nil
	}
	var list []string
	for _, d := range seen.Report.Disks {
		i := slices.IndexFunc(s.cacheNode.Spec.Disks, func(disk v1alpha1.Disk) bool {
			return disk.Name == d.Name && disk.LocalPath != nil
		})
		namespace, name, ok := strings.Cut(d.ForeignOwner, "/")
		if i < 0 || !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.CacheNode{})
		if apierrors.IsNotFound(err) {
			list = append(list, d.Name+"="+d.ForeignOwner)
		} else if err != nil && !apierrors.IsForbidden(err) { // without permission, assume that it exists
			return "", err
		}
	}
	return strings.Join(list, ","), nil
}
