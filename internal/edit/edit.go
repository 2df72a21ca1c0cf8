// Package edit says what an edit of a CacheNode does to its pods and keys. The operator acts on it, and the plugin's verb plan
// tells it beforehand. It is pure.
package edit

import (
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Target is what the pods of a CacheNode are to be: what they are made from, and what they run.
type Target struct {
	PodInput manifest.PodInput
	Revision agentapi.Revision
}

// Outside is what the revision depends on beside the CacheNode.
type Outside struct {
	// CABundle is the content of spec.origin.tls.caBundle, ClusterDomain and Resolvers are the operator's flags.
	CABundle, ClusterDomain string
	Resolvers               []string
}

// TargetOf is what a CacheNode asks for.
func TargetOf(cacheNode effective.CacheNode, outside Outside) (Target, error) {
	revision, err := agentapi.NewRevision(cacheNode, outside.CABundle, outside.ClusterDomain, outside.Resolvers)
	return Target{PodInput: manifest.NewPodInput(cacheNode), Revision: revision}, err
}

// Edit is the difference between two targets.
type Edit struct {
	Movement shard.Movement
	// NewPods: the pods are replaced, one after another.
	NewPods bool
	// NewRevision: nginx takes another configuration, by a reload or in a new pod.
	NewRevision bool
}

// Between compares two targets.
func Between(before, after Target) (Edit, error) {
	had, err := before.PodInput.Hash()
	if err != nil {
		return Edit{}, err
	}
	has, err := after.PodInput.Hash()
	return Edit{
		Movement: Movement(before.Revision, after.Revision),
		NewPods:  had != has, NewRevision: before.Revision.ID != after.Revision.ID,
	}, err
}

// Movement is what becomes of the keys between two revisions.
func Movement(before, after agentapi.Revision) shard.Movement {
	return shard.Between(Plan(before), Plan(after))
}

// Plan is the plan of a revision.
func Plan(revision agentapi.Revision) shard.Plan {
	return shard.NewPlan(tuning.ShardDisks(revision.Spec.Disks))
}
