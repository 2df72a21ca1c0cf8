package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// node contains what all parts of a configuration share: the input, and the disks that the pod can use. No code
// changes it later.
//
// Each part embeds the part from which it is made. So a part cannot use a part that is made later:
//
//	node ─▶ site ─▶ core                      the maps: which key a request has, and where it goes
//	          ├───▶ door ─▶ store             the locations that answer from the disks
//	          │       ├───▶ hops              the locations that ask other pods
//	          │       ├───▶ tier              the memory tier
//	          │       └───▶ public, peers     the servers of clients and of pods
//	          └───▶ gateway ─▶ fills, ...     the server between the caches and the origin
type node struct {
	Input
	// disks are the usable disks, sorted by name.
	disks []v1alpha1.Disk
	// plan defines which of these disks has which keys.
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
		} else { // only leaving disks can be left, and they have no keys
			n.disks = nil
		}
	}
	return n
}
