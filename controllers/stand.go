package controllers

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// stand keeps the last accepted spec in effect while the current spec is not accepted.
func (r *CacheNodeReconciler) stand(ctx context.Context, s scope, o observed) error {
	return errors.Join(r.keepStatefulSet(ctx, s, o), r.keepPolicy(ctx, s, o), r.openBudget(ctx, s))
}

// openBudget allows evictions of pods while the spec is not accepted. During that time, the operator does not decide
// which pods own keys, so a drain would wait for a hand-over that never begins.
func (r *CacheNodeReconciler) openBudget(ctx context.Context, s scope) error {
	budget := &policyv1.PodDisruptionBudget{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(s.cacheNode), budget); err != nil {
		return client.IgnoreNotFound(err)
	}
	if manifest.GuardOf(budget) == fleet.Unguarded {
		return nil
	}
	in := manifest.Input{CacheNode: effective.CacheNode{CacheNode: s.cacheNode.DeepCopy()}}
	_, _, err := r.applier().Apply(ctx, manifest.PodDisruptionBudget(in))
	return err
}

// keepStatefulSet runs while the spec is not accepted. It keeps a StatefulSet with the template of the last accepted
// spec, so that missing pods are recreated.
func (r *CacheNodeReconciler) keepStatefulSet(ctx context.Context, s scope, o observed) error {
	template := manifest.Template{}
	if json.Unmarshal([]byte(o.offered.template), &template) != nil || template.InputHash == "" {
		return nil // nothing was accepted yet
	}
	cacheNode := effective.CacheNode{CacheNode: s.cacheNode.DeepCopy()}
	if o.own.statefulSet != nil {
		cacheNode.Spec.Replicas = o.own.statefulSet.Spec.Replicas
	}
	set := manifest.StatefulSet(manifest.Input{
		CacheNode: cacheNode, Template: template, Volumes: o.podVolumes(s.cacheNode.Name),
	})
	if isToBeRemade(o.own.statefulSet, []client.Object{set}) {
		return deleteSet(ctx, r.Client, o.own.statefulSet)
	}
	if o.own.statefulSet != nil {
		return nil
	}
	_, _, err := r.applier().Apply(ctx, set)
	return err
}

// keepPolicy runs while the spec is not accepted, perhaps because of the operator's flags. The agents still run the
// last accepted spec, and must obey the operator's current flags. keepPolicy writes only one key of the ConfigMap,
// because the rest of the ConfigMap may be newer than the cache.
func (r *CacheNodeReconciler) keepPolicy(ctx context.Context, s scope, o observed) error {
	policy, err := r.Cluster.originPolicy()
	if err != nil || o.own.configMap == nil || !isOwn(o.own.configMap, s.cacheNode) ||
		o.own.configMap.Data[naming.OriginPolicyKey] == policy {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{naming.OriginPolicyKey: policy}})
	if err != nil {
		return err
	}
	config := &corev1.ConfigMap{}
	config.Namespace, config.Name = o.own.configMap.Namespace, o.own.configMap.Name
	return client.IgnoreNotFound(r.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(naming.FieldManager)))
}
