package controllers

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
)

// assign writes two facts into annotations of the pods: the revision that the agent must run, and which pods own
// keys.
func (r *CacheNodeReconciler) assign(
	ctx context.Context, s scope, o observed, decision rollout.Decision, fleet string,
) error {
	for i := range o.pods {
		pod := &o.pods[i]
		revision, assigned := decision.Assign[pod.Name]
		nudged := slices.Contains(decision.Nudge, pod.Name)
		shares := pod.Annotations[naming.AnnotationPeers] != "" && pod.Annotations[naming.AnnotationFleet] != fleet
		if !pod.DeletionTimestamp.IsZero() || (!assigned && !nudged && !shares) {
			continue
		}
		told := map[string]string{}
		if shares {
			told[naming.AnnotationFleet] = fleet
		}
		if assigned {
			told[naming.AnnotationRevision] = revision
		}
		if err := r.annotate(ctx, s, pod, told); err != nil {
			return err
		}
		if assigned || nudged {
			r.Agents.Assigned(client.ObjectKeyFromObject(pod), s.now, nudged)
		}
		log.FromContext(ctx).Info("assigned", "pod", pod.Name, "revision", pod.Annotations[naming.AnnotationRevision],
			"again", nudged, "fleet", told[naming.AnnotationFleet])
	}
	return nil
}

// annotate changes some of the operator's annotations on a pod and keeps the others. Any change makes the kubelet
// refresh the pod's volumes at once, including the ConfigMap. If the pod was deleted or replaced since it was read,
// annotate changes nothing.
func (r *CacheNodeReconciler) annotate(ctx context.Context, s scope, pod *corev1.Pod, told map[string]string) error {
	annotations := map[string]string{naming.AnnotationRevision: pod.Annotations[naming.AnnotationRevision]}
	for _, key := range []string{naming.AnnotationDrained, naming.AnnotationEmpty, naming.AnnotationFleet} {
		annotations[key] = pod.Annotations[key]
	}
	maps.Copy(annotations, told)
	annotations[v1alpha1.AnnotationRetry] = s.cacheNode.Annotations[v1alpha1.AnnotationRetry]
	// The nonce stays the same for up to a second. So if a pass repeats the last write because its cache lags behind, the
	// write changes nothing.
	annotations[naming.AnnotationNonce] = strconv.FormatInt(s.now.Unix()/int64(rollout.NudgeAfter/time.Second), 10)
	for key, value := range annotations {
		if value == "" && key != naming.AnnotationRevision {
			delete(annotations, key)
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	u.SetNamespace(pod.Namespace)
	u.SetName(pod.Name)
	u.SetUID(pod.UID)
	u.SetAnnotations(annotations)
	err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(naming.FieldManager), client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		pod.Annotations = noted(pod.Annotations, annotations)
	}
	return err
}

// noted returns all annotations of a pod after the operator has applied its own annotations. The parameter ours
// contains the operator's own annotations.
func noted(pod, ours map[string]string) map[string]string {
	after := maps.Clone(pod)
	if after == nil {
		after = map[string]string{}
	}
	for _, key := range []string{
		naming.AnnotationDrained, naming.AnnotationEmpty, naming.AnnotationFleet, v1alpha1.AnnotationRetry,
	} {
		delete(after, key)
	}
	maps.Copy(after, ours)
	return after
}
