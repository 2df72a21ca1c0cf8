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

// observed is the state at the beginning of the pass, and what can be inferred from that state alone.
type observed struct {
	own     objects
	offered offered
	// pods are sorted by name. When this pass writes annotations on a pod, the pod in this list gets them too.
	pods    []corev1.Pod
	agents  answers
	leaving leaving
	storage stored
}

// objects are the objects that the CacheNode owns, as they were read. A field is nil if the object does not exist or
// belongs to somebody else.
type objects struct {
	statefulSet *appsv1.StatefulSet
	configMap   *corev1.ConfigMap
	secret      *corev1.Secret
	// absent contains the names of the objects that were looked for and not found.
	absent map[client.ObjectKey]bool
}

// observe reads the objects of a CacheNode and the last answers of the pods' agents.
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

// infer computes everything that follows from the pods, including the plan for the storage. The storage plan may need
// to read the pods from the API server. If the pods on the API server differ from the pods in the informer cache, the
// caller must call infer again with the newer pods.
func (r *CacheNodeReconciler) infer(ctx context.Context, s scope, o *observed, out *outcome) {
	o.agents = r.ask(s, *o, out)
	o.leaving = leave(s, *o)
	o.agents = o.agents.about(o.leaving.cacheNode.Spec.Disks)
	o.storage = r.planStorage(ctx, s, *o, out)
}

// areSame returns true if both lists contain the same pods in the same versions.
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

// find reads an object from the cache. In two cases it asks the API server instead. The first case is an object that
// is missing in the cache, unless the CacheNode is new. For a new CacheNode, package apply notices an existing object
// when it creates its own. The second case is a ConfigMap that may be older than the last write of this operator. All
// decisions start from what the ConfigMap offers the pods, so an old ConfigMap could bring back a revision or end a
// hand-over.
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

// isAsNew returns true if a version is not older than the version that was written last. It returns false if the
// order of the two is not known.
func isAsNew(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}

// isAbsent returns true for an object that did not exist when the pass read the objects.
func (o objects) isAbsent(object client.Object) bool {
	switch object.(type) {
	case *appsv1.StatefulSet, *corev1.ConfigMap, *corev1.Secret:
		return o.absent[client.ObjectKeyFromObject(object)]
	}
	return false
}

// podVolumes returns the disks of each pod by ordinal, without pods that are being deleted.
func (o observed) podVolumes(cacheNode string) map[int][]string { return podVolumes(cacheNode, o.pods) }

// podInputs returns, for each pod that is not being deleted, the hash of the input of its pod template.
func (o observed) podInputs() (hashes []string) {
	for i := range o.pods {
		if pod := &o.pods[i]; pod.DeletionTimestamp.IsZero() {
			hashes = append(hashes, pod.Annotations[naming.AnnotationInput])
		}
	}
	return hashes
}

// isOwn returns true for an object that the CacheNode controls. It also returns true for an object that the operator
// applied and that has lost its controller. It returns false for an object whose controller is a deleted CacheNode
// with the same name.
func isOwn(object client.Object, cacheNode *v1alpha1.CacheNode) bool {
	controller := metav1.GetControllerOf(object)
	return metav1.IsControlledBy(object, cacheNode) ||
		(controller == nil && object.GetAnnotations()[naming.AnnotationApplied] != "")
}
