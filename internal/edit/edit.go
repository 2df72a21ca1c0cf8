// Package edit computes what an edit of a CacheNode does to its pods and keys. The operator acts on the result, and
// "kubectl cachenode plan" shows it in advance. The package is pure.
//
// It may import revision, manifest, and the packages that define the meaning of a spec. A field that matters to cached
// objects goes into CachedFields.
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

// Target is the wanted state of the pods of a CacheNode: the input from which they are created, and the revision that
// they run.
type Target struct {
	PodInput manifest.PodInput
	Revision agentapi.Revision
}

// TargetOf returns the target that a CacheNode asks for.
func TargetOf(cacheNode effective.CacheNode, outside revision.Outside) (Target, error) {
	wanted, err := revision.Of(cacheNode, outside)
	return Target{PodInput: manifest.NewPodInput(cacheNode), Revision: wanted}, err
}

// Edit describes the difference between two targets.
type Edit struct {
	Movement shard.Movement
	// NewPods is true if the edit replaces the pods, one after another.
	NewPods bool
	// NewRevision is true if nginx gets another configuration, by a reload or in a new pod.
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

// Since compares a target with the present pods. input is the hash of the PodInput from which the pods were created.
// running is the revision that the pods run.
func Since(input string, running agentapi.Revision, after Target) (Edit, error) {
	has, err := after.PodInput.Hash()
	return Edit{
		Movement: Movement(running, after.Revision),
		NewPods:  input != has, NewRevision: running.ID != after.Revision.ID,
	}, err
}

// Movement returns the keys that move between disks from one revision to another.
func Movement(before, after agentapi.Revision) shard.Movement {
	return shard.Between(Plan(before), Plan(after))
}

// PodMovement returns the keys that move between pods. ok is false if one of the specs does not share the keys among
// its pods, or shares them within zones.
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
