package explain

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// owners contains the names of three pods: the owner of a key, the pod that answers if the owner does not, and the
// owner before the last change. If there are zones, it contains the pods of one zone.
type owners struct {
	zone, owner, standIn, previous string
}

// String returns a line about the owners.
func (o owners) String() string {
	line := "Owner: " + o.owner
	if o.zone != "" {
		line = "Owner in zone " + o.zone + ": " + o.owner
	}
	if o.standIn != "" {
		line += "; if it does not answer, " + o.standIn
	}
	if o.previous != "" && o.previous != o.owner {
		line += "; it fills the object from " + o.previous
	}
	return line
}

// findOwners adds the pods that own the key. It reads them from the ConfigMap, as the pods do. If the ConfigMap does
// not contain them or must not be read, findOwners computes them from the spec.
func (p *place) findOwners(ctx context.Context, cluster *connect.Cluster, cacheNode *v1alpha1.CacheNode) error {
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

// ownedWhenNew adds the pods that own the key if the CacheNode is new and all of its pods exist. With scope Zone it
// adds nothing, because the owners depend on the zones of the pods, which are not known. It is pure.
func (p *place) ownedWhenNew(cacheNode *v1alpha1.CacheNode) {
	resolved := effective.Of(cacheNode, effective.Before{}).CacheNode
	if resolved.Spec.Routing.Scope != v1alpha1.ScopeZone {
		p.owned(resolved, planned(resolved))
	}
}

// planned returns the pods that own keys when all wanted pods exist.
func planned(cacheNode *v1alpha1.CacheNode) fleet.Fleet {
	return fleet.Of(int(ptr.Deref(cacheNode.Spec.Replicas, 1)))
}

// owned adds the pods of a fleet that own the key, if the pods share keys. It is pure.
func (p *place) owned(cacheNode *v1alpha1.CacheNode, f fleet.Fleet) {
	if cacheNode.Spec.Routing.Mode != v1alpha1.RoutingSharded && cacheNode.Status.Routing == nil {
		return // neither the spec nor the operator has chosen to share keys
	}
	if f.Zones == nil {
		p.ownedIn("", cacheNode.Name, f)
	}
	for _, zone := range slices.Sorted(maps.Keys(f.Zones)) {
		p.ownedIn(cmp.Or(zone, "none"), cacheNode.Name, f.In(zone))
	}
}

// ownedIn adds the pods of a zone that own the key.
func (p *place) ownedIn(zone, cacheNode string, f fleet.Fleet) {
	owner, standIn, previous, ok := f.Holders(p.key)
	if !ok {
		return
	}
	o := owners{zone: zone, owner: naming.Pod(cacheNode, owner)}
	if standIn >= 0 {
		o.standIn = naming.Pod(cacheNode, standIn)
	}
	if previous >= 0 {
		o.previous = naming.Pod(cacheNode, previous)
	}
	p.owners = append(p.owners, o)
}
