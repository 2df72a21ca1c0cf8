package sweep

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Owners say which keys a pod has, and on which of its disks. The zero value has every key on every disk.
type Owners struct {
	pod         string
	pods, disks []shard.Tree
	id          string
}

// NewOwners returns the owners for a pod by several plans, of pods and of disks: a key is the pod's by any of them.
// Without plans of pods, all keys are the pod's, and without plans of disks, they are on all disks.
func NewOwners(pod int, pods, disks []shard.Plan) Owners {
	o := Owners{pod: fleet.Name(pod)}
	id := []string{o.pod}
	trees := func(plans []shard.Plan) (trees []shard.Tree) {
		for _, plan := range plans {
			trees = append(trees, plan.Tree())
			id = append(id, plan.Hash())
		}
		id = append(id, "")
		return trees
	}
	o.pods, o.disks = trees(pods), trees(disks)
	o.id = strings.Join(id, " ")
	return o
}

// Have returns true if a key is the pod's and on a disk.
func (o Owners) Have(disk, key string) bool {
	return owns(o.pods, o.pod, fleet.KeyPrefix+key) && owns(o.disks, disk, key)
}

func owns(trees []shard.Tree, name, key string) bool {
	is := func(t shard.Tree) bool { return t.Owner([]byte(key)) == name }
	return len(trees) == 0 || slices.ContainsFunc(trees, is)
}
