package controllers

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// isToBeRemade returns true for a StatefulSet whose claim templates differ from the wanted claim templates. Such a
// StatefulSet must be recreated, because no API server allows a change of claim templates. It also returns true for a
// StatefulSet that is being deleted.
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

// checked returns the object to be tried on the API server before the first write. A StatefulSet that is to be
// recreated is tried under another name, because the old one still exists.
func checked(object client.Object, remake bool) client.Object {
	set, ok := object.(*appsv1.StatefulSet)
	if !ok || !remake {
		return object
	}
	set = set.DeepCopy()
	set.Name += "-check"
	return set
}

// deleteSet deletes the StatefulSet and leaves its pods. When the StatefulSet is gone, the next pass recreates it,
// and the new StatefulSet adopts the pods.
func deleteSet(ctx context.Context, c client.Client, set *appsv1.StatefulSet) error {
	if !set.DeletionTimestamp.IsZero() {
		return nil // an event starts another pass when the deletion has ended
	}
	log.FromContext(ctx).Info("recreates the StatefulSet for other claim templates")
	gone := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err := c.Delete(ctx, gone,
		client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: &set.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// podVolumes returns the disks of each pod by ordinal, without pods that are being deleted.
func podVolumes(cacheNode string, pods []corev1.Pod) map[int][]string {
	volumes := map[int][]string{}
	for i := range pods {
		pod := &pods[i]
		ordinal, ok := naming.Ordinal(cacheNode, pod.Name)
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
