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
func scale(ctx context.Context, c client.Client, s scope, replicas int32) error {
	log.FromContext(ctx).Info("one pod on each node", "replicas", replicas, "before", s.cacheNode.Spec.Replicas)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+strconv.Itoa(int(replicas))+`}}`))
	scaled := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.cacheNode.Namespace, Name: s.cacheNode.Name}}
	return client.IgnoreNotFound(c.SubResource("scale").Patch(ctx, scaled, patch, client.FieldOwner(naming.FieldManager)))
}
