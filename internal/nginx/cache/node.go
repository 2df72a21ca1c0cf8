package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// node is what all parts of a configuration share: the input and the disks that the pod can use. Nothing changes it.
//
// The parts embed what they are made from, so that none can use a part that comes after it:
//
//	node ─▶ site ─▶ core                      the maps: which key a request has, and where it goes
//	          ├───▶ door ─▶ store             the locations that answer from the disks
//	          │       ├───▶ hops              the locations that ask other pods
//	          │       ├───▶ tier              the memory tier
//	          │       └───▶ public, peers     the servers of clients and of pods
//	          └───▶ gateway ─▶ fills, ...     the server between the caches and the origin
type node struct {
	Input
	// disks are the usable ones, sorted by name.
	disks []v1alpha1.Disk
	// plan says which of them owns which keys.
	plan shard.Plan
}

func newNode(in Input) node {
	n := node{Input: in, plan: shard.NewPlan(effective.ShardDisks(in.Spec.Disks))}
	for _, d := range in.Spec.Disks {
		if !slices.Contains(in.Facts.Failed, d.Name) {
			n.disks = append(n.disks, d)
		}
	}
	slices.SortFunc(n.disks, func(a, b v1alpha1.Disk) int { return strings.Compare(a.Name, b.Name) })
	if len(n.disks) < len(in.Spec.Disks) {
		rest, ok := n.plan.Without(in.Facts.Failed...)
		if ok {
			n.plan = rest
		} else { // at most disks that leave, which have no keys
			n.disks = nil
		}
	}
	return n
}
