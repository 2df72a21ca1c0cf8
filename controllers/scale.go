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
)

// scale sets spec.replicas through the scale subresource, as an autoscaler would.
func (r *CacheNodeReconciler) scale(ctx context.Context, p *pass, replicas int32) error {
	log.FromContext(ctx).Info("one pod on each node", "replicas", replicas, "before", p.cacheNode.Spec.Replicas)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+strconv.Itoa(int(replicas))+`}}`))
	scaled := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: p.cacheNode.Namespace, Name: p.cacheNode.Name}}
	if err := r.SubResource("scale").Patch(ctx, scaled, patch, client.FieldOwner(naming.FieldManager)); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.effective.Spec.Replicas = &replicas
	return nil
}
