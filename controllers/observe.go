package controllers

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// observed is what there was when the pass began, and what follows from that alone.
type observed struct {
	own     objects
	offered offered
	// pods are sorted by name. The annotations of a pod are those that this pass has written, once it has.
	pods    []corev1.Pod
	agents  answers
	leaving leaving
	storage stored
}

// objects are those that the CacheNode owns, as they were; nil for one that did not exist or belongs to somebody else.
type objects struct {
	statefulSet *appsv1.StatefulSet
	configMap   *corev1.ConfigMap
	secret      *corev1.Secret
	// absent has the names of the objects that were looked for and not found.
	absent map[client.ObjectKey]bool
}

// observe reads the objects of a CacheNode, and what the pods' agents said last.
func (r *CacheNodeReconciler) observe(ctx context.Context, s scope, out *outcome) (o observed, err error) {
	if o.own, err = r.readObjects(ctx, s); err != nil {
		return o, err
	}
	o.offered = readOffered(o.own.configMap)
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, byInstance(s.cacheNode)); err != nil {
		return o, err
	}
	o.pods = storage.CachePods(pods.Items)
	r.infer(ctx, s, &o, out)
	if o.storage.state != nil && !areSame(o.pods, o.storage.state.Pods) {
		o.pods = o.storage.state.Pods
		r.infer(ctx, s, &o, out)
	}
	return o, nil
}

// infer finds out what follows from the pods, and what the storage needs. If that needs the API server's pods, and they
// are others than those of the informer cache, what followed from these has to be inferred again.
func (r *CacheNodeReconciler) infer(ctx context.Context, s scope, o *observed, out *outcome) {
	o.agents = r.ask(s, *o, out)
	o.leaving = leave(s, *o)
	o.agents = o.agents.about(o.leaving.cacheNode.Spec.Disks)
	o.storage = r.planStorage(ctx, s, *o, out)
}

// areSame returns true for the same pods in the same versions.
func areSame(a, b []corev1.Pod) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Pod) bool {
		return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
	})
}

// readObjects reads the StatefulSet, the ConfigMap and the Secret.
func (r *CacheNodeReconciler) readObjects(ctx context.Context, s scope) (o objects, err error) {
	o.absent = map[client.ObjectKey]bool{}
	name := s.cacheNode.Name
	set, configMap, secret := &appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Secret{}
	for _, want := range []struct {
		object client.Object
		name   string
		found  func()
	}{
		{set, name, func() { o.statefulSet = set }},
		{configMap, naming.ConfigMap(name), func() { o.configMap = configMap }},
		{secret, naming.AgentSecret(name), func() { o.secret = secret }},
	} {
		want.object.SetNamespace(s.cacheNode.Namespace)
		want.object.SetName(want.name)
		found, err := r.find(ctx, s, want.object)
		if err != nil {
			return o, err
		}
		if !found {
			o.absent[client.ObjectKeyFromObject(want.object)] = true
		} else if isOwn(want.object, s.cacheNode) {
			want.found()
		}
	}
	return o, nil
}

// find reads an object from the cache. The API server is asked instead if the cache does not have the object, but not
// for the objects of a new CacheNode: if such an object exists after all, package apply finds out when it creates it.
// It is also asked for a ConfigMap that may be older than what the last pass wrote. Everything is decided from what the
// ConfigMap offers the pods, so an old one could bring back a revision, or end a hand-over.
func (r *CacheNodeReconciler) find(ctx context.Context, s scope, object client.Object) (found bool, err error) {
	key := client.ObjectKeyFromObject(object)
	err = r.Get(ctx, key, object)
	_, isConfigMap := object.(*corev1.ConfigMap)
	switch {
	case apierrors.IsNotFound(err) && s.cacheNode.Status.ObservedGeneration > 0,
		err == nil && isConfigMap && !isAsNew(object.GetResourceVersion(), s.last.offered):
		err = r.Live.Get(ctx, key, object)
	}
	return err == nil, client.IgnoreNotFound(err)
}

// isAsNew returns true for a version that is not older than the one that was written last, if that is known.
func isAsNew(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}

// isAbsent returns true for an object that did not exist when the pass decided what to apply.
func (o objects) isAbsent(object client.Object) bool {
	switch object.(type) {
	case *appsv1.StatefulSet, *corev1.ConfigMap, *corev1.Secret:
		return o.absent[client.ObjectKeyFromObject(object)]
	}
	return false
}

// podVolumes returns the disks of each pod that is not being deleted, by ordinal.
func (o observed) podVolumes(cacheNode string) map[int][]string { return podVolumes(cacheNode, o.pods) }

// podInputs returns the hashes of the inputs from which the pods were made that are not being deleted.
func (o observed) podInputs() (hashes []string) {
	for i := range o.pods {
		if pod := &o.pods[i]; pod.DeletionTimestamp.IsZero() {
			hashes = append(hashes, pod.Annotations[naming.AnnotationInput])
		}
	}
	return hashes
}

// isOwn returns true for an object that the CacheNode controls, and for one that we applied and that has lost its
// controller. An object with the same name may remain from a CacheNode that was deleted.
func isOwn(object client.Object, cacheNode *v1alpha1.CacheNode) bool {
	controller := metav1.GetControllerOf(object)
	return metav1.IsControlledBy(object, cacheNode) ||
		(controller == nil && object.GetAnnotations()[naming.AnnotationApplied] != "")
}
