package sweep

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Owners decide which keys belong to a pod, and to which of its disks. With the zero value, every key belongs to the
// pod and to every disk.
type Owners struct {
	pod         string
	pods, disks []shard.Tree
	id          string
}

// NewOwners returns the owners in a pod. The argument pods contains plans that assign keys to pods, and the argument
// disks contains plans that assign keys to disks. A key belongs to the pod or to a disk if at least one of these plans
// assigns the key to it. Without plans of pods, all keys belong to the pod. Without plans of disks, they belong to all
// disks.
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

// Have returns true if a key belongs to the pod and to the given disk.
func (o Owners) Have(disk, key string) bool {
	return owns(o.pods, o.pod, fleet.KeyPrefix+key) && owns(o.disks, disk, key)
}

func owns(trees []shard.Tree, name, key string) bool {
	is := func(t shard.Tree) bool { return t.Owner([]byte(key)) == name }
	return len(trees) == 0 || slices.ContainsFunc(trees, is)
}
