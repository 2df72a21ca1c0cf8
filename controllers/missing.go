package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// applyPlaceholder makes the volume that waits for the claim that takes the place of this one.
func (r *CacheNodeReconciler) applyPlaceholder(ctx context.Context, s *scope, claim *corev1.PersistentVolumeClaim, disk string, node *corev1.Node) error {
	_, _, err := r.applier().Apply(ctx, manifest.Placeholder(s.node, claim, disk, node))
	return err
}

func (r *CacheNodeReconciler) applier() apply.Applier {
	return apply.Applier{Client: r.Client, Live: r.Live}
}

// scout keeps a pod for each disk that a placeholder stands in for and that has a path of the operator's: it starts when the
// path is there, and ends when it is a mount. It returns the disks of which that is so, and removes the scouts that nobody
// needs any more.
func (r *CacheNodeReconciler) scout(ctx context.Context, s *scope) (back map[storage.PodDisk]bool, err error) {
	back = map[storage.PodDisk]bool{}
	needed := map[string]bool{}
	for _, m := range s.missing {
		i := slices.IndexFunc(s.node.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == m.Disk && d.LocalPath != nil })
		node := s.storage().Host(m.Node)
		if i < 0 || node == nil {
			continue
		}
		// recover runs before the spec is validated: a scout looks only at what is a volume of this CacheNode already.
		if path := s.node.Spec.Disks[i].LocalPath.Path; s.volumes[naming.Volume(node.Name, path)] == nil || !r.Cluster.Policy.AllowsLocalPath(path) {
			continue
		}
		name := naming.Scout(m.Disk, m.Pod)
		needed[name] = true
		in := manifest.ScoutInput{
			CacheNode: s.node, Disk: s.node.Spec.Disks[i], Pod: m.Pod, Node: node,
			Image: r.Cluster.AgentImage, PullPolicy: r.Cluster.AgentPullPolicy,
		}
		needed[manifest.ScoutVolume(in).Name] = true
		if err := r.applyScout(ctx, in); err != nil { // a quota, for example: the caches do not wait for scouts
			log.FromContext(ctx).Error(err, "make a scout", "scout", name)
		}
	}
	return back, r.readScouts(ctx, s, needed, back)
}

// applyScout makes what is not there of a scout. What is there is left as it is, as next to nothing of it can be changed; a
// pod that looks for something else by now is deleted.
func (r *CacheNodeReconciler) applyScout(ctx context.Context, in manifest.ScoutInput) error {
	for _, object := range []client.Object{manifest.ScoutVolume(in), manifest.ScoutClaim(in)} {
		err := r.get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		if apierrors.IsNotFound(err) {
			_, _, err = r.applier().Apply(ctx, object)
		}
		if err != nil {
			return err
		}
	}
	pod, live := manifest.Scout(in), &corev1.Pod{}
	err := r.get(ctx, client.ObjectKeyFromObject(pod), live)
	switch {
	case apierrors.IsNotFound(err):
		_, _, err = r.applier().Apply(ctx, pod)
	case err == nil && live.Annotations[naming.AnnotationInput] != pod.Annotations[naming.AnnotationInput]:
		err = client.IgnoreNotFound(r.Delete(ctx, live, client.Preconditions{UID: &live.UID}))
	}
	return err
}

// readScouts notes which have found their disk, and deletes those that are not needed.
func (r *CacheNodeReconciler) readScouts(ctx context.Context, s *scope, needed map[string]bool, back map[storage.PodDisk]bool) error {
	labels := client.MatchingLabels(naming.ScoutLabels(s.node.Name))
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(s.node.Namespace), labels); err != nil {
		return err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.List(ctx, claims, client.InNamespace(s.node.Namespace), labels); err != nil {
		return err
	}
	var spent []client.Object
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !needed[pod.Name] || pod.Status.Phase == corev1.PodFailed {
			spent = append(spent, pod)
		} else if pod.Status.Phase == corev1.PodSucceeded {
			for _, m := range s.missing {
				if naming.Scout(m.Disk, m.Pod) == pod.Name {
					back[m.PodDisk] = true
				}
			}
		}
	}
	for i := range claims.Items {
		if !needed[claims.Items[i].Name] {
			spent = append(spent, &claims.Items[i])
		}
	}
	for name, volume := range s.volumes {
		if volume.Labels[naming.LabelRole] == naming.RoleScout && (!needed[name] || volume.Status.Phase == corev1.VolumeReleased) {
			spent = append(spent, volume)
		}
	}
	for _, object := range spent {
		if !object.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, object, client.GracePeriodSeconds(0))); err != nil {
			return err
		}
	}
	return nil
}
