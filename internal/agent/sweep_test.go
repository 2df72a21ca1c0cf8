package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// TestKeeps checks the rules for the files on a disk: how long stale objects are kept, and how many of 1,000 keys
// belong to the disk.
func TestKeeps(t *testing.T) {
	t.Parallel()
	revision := func(change func(*v1alpha1.CacheNodeSpec)) agentapi.Revision {
		r := agentapi.Revision{Name: "edge"}
		r.Spec.Disks = []v1alpha1.Disk{{Name: "disk1"}, {Name: "disk2"}}
		for i := range r.Spec.Disks {
			r.Spec.Disks[i].Weight = new(int32(1))
		}
		r.Spec.Routing = v1alpha1.Routing{Mode: v1alpha1.RoutingSharded, Handover: "5m"}
		r.Spec.Cache.StaleWhileRevalidate, r.Spec.Cache.StaleIfError = "30s", "24h"
		change(&r.Spec)
		return r
	}
	both := func(*v1alpha1.CacheNodeSpec) {}
	plan := shard.NewPlan(effective.ShardDisks(revision(both).Spec.Disks))
	second, _ := plan.Without("disk1")
	pods := func(self int, f fleet.Fleet) cache.Fleet { return cache.Fleet{Fleet: f, Self: self} }
	four := fleet.Of(4)
	away := fleet.Fleet{Owners: fleet.Owners{Members: four.Members, Away: []int{1}}}
	config := cache.Config{Plan: plan, Cached: true}
	nobody := pods(0, fleet.Fleet{})
	const day, swr = 24 * time.Hour, 30 * time.Second
	for name, tt := range map[string]struct {
		revision    agentapi.Revision
		config      cache.Config
		fleet       cache.Fleet
		least, most int
		isHandover  bool
		stale       time.Duration
	}{
		"pods share keys":       {revision(both), config, pods(1, four), 80, 170, false, day},
		"the pod is away":       {revision(both), config, pods(1, away), 80, 170, false, day},
		"another pod is away":   {revision(both), config, pods(0, away), 120, 220, false, day},
		"the pod is no member":  {revision(both), config, pods(4, four), 400, 600, false, day},
		"nobody owns keys":      {revision(both), config, nobody, 400, 600, false, day},
		"another disk is out":   {revision(both), cache.Config{Plan: second, Cached: true}, nobody, 1000, 1000, false, day},
		"nothing can be cached": {revision(both), cache.Config{}, nobody, 1000, 1000, false, day},
		"a hand-over": {
			revision(both), config, pods(1, fleet.Fleet{Owners: four.Owners, Previous: fleet.Of(3).Owners}),
			80, 170, true, day,
		},
		"Local": {
			revision(func(s *v1alpha1.CacheNodeSpec) { s.Routing.Mode = v1alpha1.RoutingLocal }), config, pods(0, four),
			400, 600, false, day,
		},
		"a window that is switched off": {
			revision(func(s *v1alpha1.CacheNodeSpec) { s.Cache.UseStale = []v1alpha1.StaleReason{"Updating"} }),
			config, pods(1, four), 80, 170, false, swr,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := keeps(tt.revision, tt.config, tt.fleet)
			kept := 0
			for i := range 1000 {
				if r.Owners.Have("disk2", fmt.Sprint("http://example.com/", i)) {
					kept++
				}
			}
			if kept < tt.least || kept > tt.most {
				t.Errorf("%d keys are on disk2, want %d to %d", kept, tt.least, tt.most)
			}
			if r.Stale != tt.stale || r.Handover != 5*time.Minute || r.IsHandover != tt.isHandover {
				t.Errorf("stale objects are kept for %s, hand-overs last %s (now: %t)", r.Stale, r.Handover, r.IsHandover)
			}
		})
	}
}
