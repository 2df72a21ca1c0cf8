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

// instanceIndex finds pods, claims and volumes in the cache by the CacheNode that they are for. A list by labels would look
// at all of them for each CacheNode.
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

// indexed is where an object stands in the index: nowhere, if it is for no CacheNode, or none of its own parts, as a scout.
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

// byScoutsOf lists from the cache the scouts of a CacheNode, and their claims.
func byScoutsOf(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{scoutIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// byInstance lists from the cache what is for a CacheNode.
func byInstance(cacheNode client.Object) client.ListOption {
	return client.MatchingFields{instanceIndex: client.ObjectKeyFromObject(cacheNode).String()}
}

// instance is the CacheNode that an object is for, by its labels; those without a namespace name it too. It has no name
// where there is none.
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

// toCacheNode is the request that an object's events lead to.
func toCacheNode(_ context.Context, object client.Object) []reconcile.Request {
	if name := instance(object); name.Name != "" {
		return []reconcile.Request{{NamespacedName: name}}
	}
	return nil
}
