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

// instanceIndex finds the pods, claims and volumes of a CacheNode in the cache. A list by labels would look at those of
// all CacheNodes for each CacheNode.
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

// indexed returns the index key of an object; none if it belongs to no CacheNode, or is not one of its own parts, such
// as a scout.
func indexed(object client.Object) []string {
	name := instance(object)
	if name.Name == "" || object.GetLabels()[naming.LabelName] != naming.Application {
		return nil
	}
	return []string{name.String()}
}

// scoutIndex finds scouts and their claims by the CacheNode that they are for.
const scoutIndex = "scouts"

func scoutIndexed(object client.Object) []string {
	name := instance(object)
	if name.Name == "" || object.GetLabels()[naming.LabelName] != naming.ScoutLabels(name.Name)[naming.LabelName] {
		return nil
	}
	return []string{name.String()}
}

// byScoutsOf selects in the cache the scouts of a CacheNode, and their claims.
func byScoutsOf(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{scoutIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// byInstance selects in the cache the objects of a CacheNode.
func byInstance(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{instanceIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// instance returns the CacheNode that an object belongs to, by its labels. The result has no name if there is none. The
// labels of an object without a namespace also name the namespace of the CacheNode.
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

// toCacheNode returns the request for the CacheNode that an object belongs to, or nothing.
func toCacheNode(_ context.Context, object client.Object) []reconcile.Request {
	if name := instance(object); name.Name != "" {
		return []reconcile.Request{{NamespacedName: name}}
	}
	return nil
}
