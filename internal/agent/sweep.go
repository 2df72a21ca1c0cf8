package agent

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// keeps returns the rules that decide which files the disks keep with a configuration. A key counts as a key of the
// pod, or of a disk, if the pod or disk owns it now. It also counts if the pod or disk would own it with all pods
// present and all disks healthy. So a pod or disk that comes back finds its objects.
func keeps(revision agentapi.Revision, config cache.Config, f cache.Fleet) sweep.Rules {
	spec := revision.Spec
	policy := effective.Stale(sites.Own(spec).Cache)
	r := sweep.Rules{
		Stale:      max(effective.Duration(policy.StaleWhileRevalidate), effective.Duration(policy.StaleIfError)),
		Handover:   effective.Handover(spec.Routing),
		IsHandover: !f.Previous.IsZero() || !f.Disks.IsZero(),
	}
	var pods, disks []shard.Plan
	if config.Cached {
		disks = []shard.Plan{config.Plan, shard.NewPlan(effective.ShardDisks(spec.Disks))}
	}
	if spec.Routing.Mode == v1alpha1.RoutingSharded && slices.Contains(f.Members, f.Self) {
		for _, o := range []fleet.Owners{f.Owners, {Members: f.Members}} {
			if plan, ok := o.Plan(); ok {
				pods = append(pods, plan)
			}
		}
	}
	r.Owners = sweep.NewOwners(f.Self, pods, disks)
	return r
}
