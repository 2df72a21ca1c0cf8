package controllers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// instanceIndex finds the pods, claims and volumes of a CacheNode in the cache. Without an index, a list by labels
// for one CacheNode would go through the objects of all CacheNodes.
const instanceIndex = "cachenode"

func indexInstances(mgr ctrl.Manager) error {
	var errs []error
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}} {
		errs = append(errs,
			mgr.GetFieldIndexer().IndexField(context.Background(), object, instanceIndex, indexed),
			mgr.GetFieldIndexer().IndexField(context.Background(), object, scoutIndex, scoutIndexed),
		)
	}
	return errors.Join(errs...)
}

// indexed returns the index key of an object. It returns no key if the object belongs to no CacheNode, or is only a
// helper object such as a scout.
func indexed(object client.Object) []string {
	name := instance(object)
	if name.Name == "" || object.GetLabels()[naming.LabelName] != naming.Application {
		return nil
	}
	return []string{name.String()}
}

// scoutIndex finds scouts and their claims by the CacheNode to which they belong.
const scoutIndex = "scouts"

func scoutIndexed(object client.Object) []string {
	name := instance(object)
	if name.Name == "" || object.GetLabels()[naming.LabelName] != naming.ScoutLabels(name.Name)[naming.LabelName] {
		return nil
	}
	return []string{name.String()}
}

// byScoutsOf selects the scouts of a CacheNode and their claims in the cache.
func byScoutsOf(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{scoutIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// byInstance selects the objects of a CacheNode in the cache.
func byInstance(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{instanceIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// instance returns the CacheNode to which an object belongs according to its labels. The result has no name if there
// is no such CacheNode. For an object without a namespace, a label also names the namespace of the CacheNode.
func instance(object client.Object) types.NamespacedName {
	labels, namespace := object.GetLabels(), object.GetNamespace()
	if namespace == "" {
		namespace = labels[naming.LabelNamespace]
	}
	if namespace == "" || labels[naming.LabelInstance] == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: labels[naming.LabelInstance]}
}

// toCacheNode returns the request for the CacheNode to which an object belongs, or nothing.
func toCacheNode(_ context.Context, object client.Object) []reconcile.Request {
	if name := instance(object); name.Name != "" {
		return []reconcile.Request{{NamespacedName: name}}
	}
	return nil
}
