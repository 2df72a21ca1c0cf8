package controllers

import (
	"context"
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

// assign writes on the pods what their agents are to do: which revision to run, which disks to leave alone, which caches to
// delete. A change of an annotation makes the kubelet refresh the pod's volumes at once, the ConfigMap's too.
func (r *CacheNodeReconciler) assign(ctx context.Context, s *scope) error {
	return r.tellPods(ctx, s, *s.decision)
}

// tellDisks is that without revisions, for while the spec is not accepted.
func (r *CacheNodeReconciler) tellDisks(ctx context.Context, s *scope) error {
	return r.tellPods(ctx, s, rollout.Decision{})
}

func (r *CacheNodeReconciler) tellPods(ctx context.Context, s *scope, d rollout.Decision) error {
	abandoned, err := r.abandonedCaches(ctx, s)
	if err != nil {
		return err
	}
	retry := s.node.Annotations[naming.AnnotationRetry]
	for i := range s.pods {
		pod := &s.pods[i]
		revision, assigned := d.Assign[pod.Name]
		nudged := slices.Contains(d.Nudge, pod.Name)
		drained := strings.Join(s.verbs.Drained[pod.Name], ",")
		told := pod.Annotations[naming.AnnotationDrained] != drained || pod.Annotations[naming.AnnotationEmpty] != abandoned[pod.Name]
		if !pod.DeletionTimestamp.IsZero() || (!assigned && !nudged && !told) {
			continue
		}
		annotations := map[string]string{naming.AnnotationRevision: pod.Annotations[naming.AnnotationRevision]}
		if assigned {
			annotations[naming.AnnotationRevision] = revision
		}
		// The same for a while, so that a pass that has not seen the write of the one before writes nothing new.
		annotations[naming.AnnotationNonce] = strconv.FormatInt(s.now.Unix()/int64(rollout.NudgeAfter/time.Second), 10)
		for name, value := range map[string]string{
			naming.AnnotationRetry: retry, naming.AnnotationDrained: drained, naming.AnnotationEmpty: abandoned[pod.Name],
		} {
			if value != "" {
				annotations[name] = value
			}
		}
		if err := r.annotate(ctx, pod, annotations); err != nil {
			return err
		}
		if told {
			r.tell(s, pod, drained, abandoned[pod.Name])
		}
		if assigned || nudged {
			r.Agents.assigned(client.ObjectKeyFromObject(pod), s.now, nudged)
		}
		log.FromContext(ctx).Info("assigned", "pod", pod.Name, "revision", annotations[naming.AnnotationRevision], "again", nudged, "drained", drained)
	}
	return nil
}

// tell says in events what a pod's agent was told about its disks.
func (r *CacheNodeReconciler) tell(s *scope, pod *corev1.Pod, drained, abandoned string) {
	switch before := pod.Annotations[naming.AnnotationDrained]; {
	case drained != "" && drained != before:
		r.Events.Eventf(s.node, pod, corev1.EventTypeNormal, "DiskDrained", "Drain", "%s leaves %s alone; the files stay", pod.Name, drained)
	case drained == "" && before != "":
		r.Events.Eventf(s.node, pod, corev1.EventTypeNormal, "DiskReadmitted", "Readmit", "%s uses %s again", pod.Name, before)
	}
	if abandoned != "" && abandoned != pod.Annotations[naming.AnnotationEmpty] {
		r.Events.Eventf(s.node, pod, corev1.EventTypeNormal, "CacheAbandoned", "Empty", "%s deletes caches whose CacheNode is gone: %s", pod.Name, abandoned)
	}
}

// abandonedCaches are those that agents have found on volumes of the operator's and whose CacheNode no longer exists, as the
// pods' annotation has them.
func (r *CacheNodeReconciler) abandonedCaches(ctx context.Context, s *scope) (map[string]string, error) {
	abandoned := map[string]string{}
	for pod, seen := range s.observations {
		var list []string
		for _, d := range seen.Report.Disks {
			i := slices.IndexFunc(s.node.Spec.Disks, func(disk v1alpha1.Disk) bool { return disk.Name == d.Name && disk.LocalPath != nil })
			namespace, name, ok := strings.Cut(d.ForeignOwner, "/")
			if i < 0 || !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
				continue
			}
			err := r.live(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.CacheNode{})
			if apierrors.IsNotFound(err) {
				list = append(list, d.Name+"="+d.ForeignOwner)
			} else if err != nil && !apierrors.IsForbidden(err) { // in a namespace that is not ours to see, it is there
				return nil, err
			}
		}
		abandoned[pod] = strings.Join(list, ",")
	}
	return abandoned, nil
}

// annotate applies our annotations on a pod. A pod that is gone, or another by now, is none of this pass's.
func (r *CacheNodeReconciler) annotate(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	u.SetNamespace(pod.Namespace)
	u.SetName(pod.Name)
	u.SetUID(pod.UID)
	u.SetAnnotations(annotations)
	err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(naming.FieldManager), client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
