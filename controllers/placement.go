package controllers

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// followHosts keeps the pods on the nodes that the spec allows.
func (r *CacheNodeReconciler) followHosts(ctx context.Context, s *scope) error {
	if s.node.Spec.Placement.PerNode {
		if err := r.scaleToHosts(ctx, s); err != nil {
			return err
		}
	}
	displaced, err := storage.Displaced(s.storage())
	if err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	for _, release := range displaced {
		if done, err := r.release(ctx, s, release); err != nil || !done {
			return err
		}
	}
	return nil
}

// scaleToHosts sets the number of pods to that of the nodes, with one pod on each.
func (r *CacheNodeReconciler) scaleToHosts(ctx context.Context, s *scope) error {
	hosts, err := storage.Eligible(s.node.Spec, s.hosts)
	if err != nil {
		return &problem{reason: v1alpha1.ReasonInvalidSpec, message: err.Error(), stalled: true}
	}
	hosts = storage.Tolerated(s.node.Spec, hosts)
	if len(hosts) > 1000 {
		return &problem{
			reason: v1alpha1.ReasonInvalidSpec, stalled: true,
			message: "spec.placement.perNode: more than 1000 nodes match: narrow them down by spec.pod.nodeSelector",
		}
	}
	if len(hosts) == replicasOf(s.node) {
		return nil
	}
	log.FromContext(ctx).Info("one pod on each node", "nodes", len(hosts), "before", replicasOf(s.node))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+strconv.Itoa(len(hosts))+`}}`))
	scaled := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.node.Namespace, Name: s.node.Name}}
	if err := r.SubResource("scale").Patch(ctx, scaled, patch, client.FieldOwner(naming.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.node.Spec.Replicas = new(int32(len(hosts))) //nolint:gosec // at most 1000
	return nil
}
