package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
)

// tellDisks writes on the pods which disks their agents must not use, and which caches they must delete.
// An error with one pod does not keep the others from being told.
func (r *CacheNodeReconciler) tellDisks(ctx context.Context, p *pass) error {
	var errs []error
	for i := range p.pods {
		if pod := &p.pods[i]; pod.DeletionTimestamp.IsZero() {
			errs = append(errs, r.tellPod(ctx, p, pod))
		}
	}
	return errors.Join(errs...)
}

func (r *CacheNodeReconciler) tellPod(ctx context.Context, p *pass, pod *corev1.Pod) error {
	abandoned, err := r.abandonedCaches(ctx, p, pod)
	if err != nil {
		return err
	}
	drained := strings.Join(p.verbs.Drained[pod.Name], ",")
	before := map[string]string{
		naming.AnnotationDrained: pod.Annotations[naming.AnnotationDrained],
		naming.AnnotationEmpty:   pod.Annotations[naming.AnnotationEmpty],
	}
	if drained == before[naming.AnnotationDrained] && abandoned == before[naming.AnnotationEmpty] {
		return nil
	}
	told := map[string]string{naming.AnnotationDrained: drained, naming.AnnotationEmpty: abandoned}
	if err := r.annotate(ctx, p, pod, told); err != nil {
		return err
	}
	r.announce(p, pod, before, told)
	return nil
}

// announce records events for disks that the agent of a pod was asked to drain, readmit or empty.
func (r *CacheNodeReconciler) announce(p *pass, pod *corev1.Pod, before, told map[string]string) {
	switch was, is := before[naming.AnnotationDrained], told[naming.AnnotationDrained]; {
	case is != "" && is != was:
		r.Events.Eventf(p.cacheNode, pod, corev1.EventTypeNormal, "DiskDrained", "Drain",
			"%s stopped using %s; its files stay", pod.Name, is)
	case is == "" && was != "":
		r.Events.Eventf(p.cacheNode, pod, corev1.EventTypeNormal, "DiskReadmitted", "Readmit",
			"%s uses %s again", pod.Name, was)
	}
	if is := told[naming.AnnotationEmpty]; is != "" && is != before[naming.AnnotationEmpty] {
		r.Events.Eventf(p.cacheNode, pod, corev1.EventTypeNormal, "CacheAbandoned", "Empty",
			"%s deletes caches whose CacheNode is gone: %s", pod.Name, is)
	}
}

// abandonedCaches returns the foreign caches that a pod's agent found on the operator's volumes and whose CacheNode no
// longer exists, in the format of the pod's annotation. The annotation stays as it is until the agent has answered this
// operator.
func (r *CacheNodeReconciler) abandonedCaches(ctx context.Context, p *pass, pod *corev1.Pod) (string, error) {
	seen := p.agents[pod.Name]
	if seen.Answered.IsZero() {
		return pod.Annotations[naming.AnnotationEmpty], nil
	}
	var list []string
	for _, d := range seen.Report.Disks {
		i := slices.IndexFunc(p.cacheNode.Spec.Disks, func(disk v1alpha1.Disk) bool {
			return disk.Name == d.Name && disk.LocalPath != nil
		})
		namespace, name, ok := strings.Cut(d.ForeignOwner, "/")
		if i < 0 || !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.CacheNode{})
		if apierrors.IsNotFound(err) {
			list = append(list, d.Name+"="+d.ForeignOwner)
		} else if err != nil && !apierrors.IsForbidden(err) { // in a namespace that we may not read, it counts as existing
			return "", err
		}
	}
	return strings.Join(list, ","), nil
}

// assign writes on the pods which revision their agents must run.
func (r *CacheNodeReconciler) assign(ctx context.Context, p *pass) error {
	for i := range p.pods {
		pod := &p.pods[i]
		revision, assigned := p.decision.Assign[pod.Name]
		nudged := slices.Contains(p.decision.Nudge, pod.Name)
		shares := pod.Annotations[naming.AnnotationPeers] != "" && pod.Annotations[naming.AnnotationFleet] != p.offer.Fleet
		if !pod.DeletionTimestamp.IsZero() || (!assigned && !nudged && !shares) {
			continue
		}
		told := map[string]string{}
		if shares {
			told[naming.AnnotationFleet] = p.offer.Fleet
		}
		if assigned {
			told[naming.AnnotationRevision] = revision
		}
		if err := r.annotate(ctx, p, pod, told); err != nil {
			return err
		}
		if assigned || nudged {
			r.Agents.assigned(client.ObjectKeyFromObject(pod), p.now, nudged)
		}
		log.FromContext(ctx).Info("assigned", "pod", pod.Name, "revision", pod.Annotations[naming.AnnotationRevision],
			"again", nudged, "fleet", told[naming.AnnotationFleet])
	}
	return nil
}

// annotate changes some of our annotations on a pod and keeps the others. Any change makes the kubelet refresh the
// pod's volumes at once, the ConfigMap's too. A pod that is gone or was replaced meanwhile is left alone.
func (r *CacheNodeReconciler) annotate(ctx context.Context, p *pass, pod *corev1.Pod, told map[string]string) error {
	annotations := map[string]string{naming.AnnotationRevision: pod.Annotations[naming.AnnotationRevision]}
	for _, key := range []string{naming.AnnotationDrained, naming.AnnotationEmpty, naming.AnnotationFleet} {
		annotations[key] = pod.Annotations[key]
	}
	maps.Copy(annotations, told)
	annotations[v1alpha1.AnnotationRetry] = p.cacheNode.Annotations[v1alpha1.AnnotationRetry]
	// The nonce stays the same for a while, so that a pass with a cache that lags behind the last write writes nothing
	// new.
	annotations[naming.AnnotationNonce] = strconv.FormatInt(p.now.Unix()/int64(rollout.NudgeAfter/time.Second), 10)
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

// noted returns the annotations that a pod has after ours were applied.
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

// assigned notes when a pod was given a revision, or nudged.
func (a *Agents) assigned(pod types.NamespacedName, at time.Time, nudged bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.known[pod]; known != nil {
		known.AssignedAt = at
		known.Nudges++
		if !nudged {
			known.Nudges = 0
		}
	}
}
