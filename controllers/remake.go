package controllers

import (
	"context"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// isToBeRemade is true for a StatefulSet whose claim templates are not the wanted ones, which no API server lets change, and
// for one that is on its way out.
func isToBeRemade(set *appsv1.StatefulSet, objects []client.Object) bool {
	if set == nil {
		return false
	}
	if !set.DeletionTimestamp.IsZero() {
		return true
	}
	for _, object := range objects {
		if wanted, ok := object.(*appsv1.StatefulSet); ok {
			return !slices.EqualFunc(set.Spec.VolumeClaimTemplates, wanted.Spec.VolumeClaimTemplates, isSameClaim)
		}
	}
	return false
}

func isSameClaim(a, b corev1.PersistentVolumeClaim) bool {
	return a.Name == b.Name && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec.StorageClassName, b.Spec.StorageClassName) &&
		equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector) &&
		equality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources)
}

// checked is what is tried on the API server before anything is written: of a StatefulSet that is made anew, one of another
// name, as that of its own name is still there.
func checked(object client.Object, remake bool) client.Object {
	set, ok := object.(*appsv1.StatefulSet)
	if !ok || !remake {
		return object
	}
	set = set.DeepCopy()
	set.Name += "-check"
	return set
}

// orphan deletes the StatefulSet and leaves its pods. When it is gone, the next pass makes it anew, and it takes them in.
func (r *CacheNodeReconciler) orphan(ctx context.Context, s *scope) error {
	set := s.statefulSet
	if !set.DeletionTimestamp.IsZero() {
		return nil // its end is an event
	}
	log.FromContext(ctx).Info("makes the StatefulSet anew, for other claim templates")
	gone := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err := r.Delete(ctx, gone, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: &set.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// podVolumes are the disks of each pod that is not being deleted, by ordinal.
func (s *scope) podVolumes() map[int][]string {
	volumes := map[int][]string{}
	for i := range s.pods {
		pod := &s.pods[i]
		ordinal, ok := naming.Ordinal(s.node.Name, pod.Name)
		if !ok || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		volumes[ordinal] = []string{}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				volumes[ordinal] = append(volumes[ordinal], v.Name)
			}
		}
	}
	return volumes
}

// keep does what must go on while the spec is not accepted: the StatefulSet is there, with the template that was accepted
// last, and can make the pods that are missing; disks are drained and readmitted.
func (r *CacheNodeReconciler) keep(ctx context.Context, s *scope) error {
	if err := r.tellDisks(ctx, s); err != nil {
		return err
	}
	live := &corev1.ConfigMap{}
	if err := r.get(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: naming.ConfigMap(s.node.Name)}, live); err != nil {
		return client.IgnoreNotFound(err) // nothing was accepted yet
	}
	if !isOwn(live, s.node) {
		return nil
	}
	template := manifest.Template{}
	if json.Unmarshal([]byte(live.Annotations[naming.AnnotationTemplate]), &template) != nil || template.InputHash == "" {
		return nil
	}
	cacheNode := s.node.DeepCopy()
	if s.statefulSet != nil {
		cacheNode.Spec.Replicas = s.statefulSet.Spec.Replicas
	}
	set := manifest.StatefulSet(manifest.Input{CacheNode: cacheNode, Template: template, Volumes: s.podVolumes()})
	if isToBeRemade(s.statefulSet, []client.Object{set}) {
		return r.orphan(ctx, s)
	}
	if s.statefulSet != nil {
		return nil
	}
	_, _, err := r.applier().Apply(ctx, set)
	return err
}
