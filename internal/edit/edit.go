// Package edit says what an edit of a CacheNode does to its pods and keys. The operator acts on that, and "kubectl
// cachenode plan" shows it in advance. It is pure.
//
// It may import what a spec means, revision and manifest. A field that matters to what is cached goes into
// CachedFields.
package edit

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Target is the wanted state of the pods of a CacheNode: what they are created from, and what they run.
type Target struct {
	PodInput manifest.PodInput
	Revision agentapi.Revision
}

// TargetOf returns the target that a CacheNode asks for.
func TargetOf(cacheNode effective.CacheNode, outside revision.Outside) (Target, error) {
	wanted, err := revision.Of(cacheNode, outside)
	return Target{PodInput: manifest.NewPodInput(cacheNode), Revision: wanted}, err
}

// Edit is the difference between two targets.
type Edit struct {
	Movement shard.Movement
	// NewPods is true if the pods are replaced, one after another.
	NewPods bool
	// NewRevision is true if nginx takes another configuration, by a reload or in a new pod.
	NewRevision bool
}

// Between compares two targets.
func Between(before, after Target) (Edit, error) {
	had, err := before.PodInput.Hash()
	if err != nil {
		return Edit{}, err
	}
	return Since(had, before.Revision, after)
}

// Since compares a target with what there is: the hash of what the pods were created from, and the revision that they
// run.
func Since(input string, running agentapi.Revision, after Target) (Edit, error) {
	has, err := after.PodInput.Hash()
	return Edit{
		Movement: Movement(running, after.Revision),
		NewPods:  input != has, NewRevision: running.ID != after.Revision.ID,
	}, err
}

// Movement returns the keys that move between two revisions.
func Movement(before, after agentapi.Revision) shard.Movement {
	return shard.Between(Plan(before), Plan(after))
}

// PodMovement returns the keys that move between pods if the pods of both specs share them.
func PodMovement(before, after v1alpha1.CacheNodeSpec) (m shard.Movement, ok bool) {
	of := func(spec v1alpha1.CacheNodeSpec) (shard.Plan, bool) {
		if spec.Routing.Mode != v1alpha1.RoutingSharded || spec.Routing.Scope == v1alpha1.ScopeZone { // zones are not known
			return shard.Plan{}, false
		}
		return fleet.Of(int(ptr.Deref(spec.Replicas, 1))).Plan()
	}
	from, had := of(before)
	to, has := of(after)
	if !had || !has {
		return m, false
	}
	return shard.Between(from, to), true
}

// Plan returns the plan of a revision.
func Plan(revision agentapi.Revision) shard.Plan {
	return shard.NewPlan(effective.ShardDisks(revision.Spec.Disks))
}
