package explain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// owners adds the pods that own the key. They come from the ConfigMap, as for the pods, or else from the spec.
func (p *place) owners(ctx context.Context, cluster *connect.Cluster, cacheNode *v1alpha1.CacheNode) error {
	f := planned(cacheNode)
	configMap := &corev1.ConfigMap{}
	name := client.ObjectKey{Namespace: cacheNode.Namespace, Name: naming.ConfigMap(cacheNode.Name)}
	err := cluster.Get(ctx, name, configMap)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return err
	}
	if text := configMap.Data[naming.FleetKey]; err == nil && text != "" {
		if f, err = fleet.Read(text); err != nil {
			return err
		}
	}
	p.owned(cacheNode, f)
	return nil
}

// planned are the pods that own keys when all of them are there.
func planned(cacheNode *v1alpha1.CacheNode) fleet.Fleet {
	return fleet.Of(int(ptr.Deref(cacheNode.Spec.Replicas, 1)))
}

// owned adds the pods of a fleet that own the key, if pods share keys. It is pure.
func (p *place) owned(cacheNode *v1alpha1.CacheNode, f fleet.Fleet) {
	if cacheNode.Spec.Routing.Mode != v1alpha1.RoutingSharded && cacheNode.Status.Routing == nil {
		return // neither the spec nor the operator has chosen it
	}
	owner, standIn, previous, ok := f.Holders(p.key)
	if !ok {
		return
	}
	p.owner = naming.Pod(cacheNode.Name, owner)
	if standIn >= 0 {
		p.standIn = naming.Pod(cacheNode.Name, standIn)
	}
	if previous >= 0 {
		p.previous = naming.Pod(cacheNode.Name, previous)
	}
}
