package storage

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/set"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// spareNodes is how many nodes more than pods that lack one have volumes, so that the scheduler has a choice.
	spareNodes = 2
	// moreNodesAfter is how long the scheduler may fail to place a pod before twice as many nodes have volumes.
	moreNodesAfter = 10 * time.Second
)

// volumeNodes are the nodes on which the disks with a localPath have volumes: those that pods or claims hold, and of the others
// as many as the pods that have no node yet need, and a few more. With one pod on each node, they are all. Nodes without
// volumes are no choice for the scheduler, so while it cannot place a pod, their number doubles.
func (s State) volumeNodes() ([]corev1.Node, error) {
	if s.replicas() == 0 || !s.hasLocalDisks() {
		return nil, nil
	}
	nodes, err := eligible(s.CacheNode.Spec, s.Nodes)
	if err != nil || s.CacheNode.Spec.Placement.PerNode {
		return nodes, err
	}
	held, offered := s.heldNodes(), s.offeredNodes()
	homeless := s.replicas()
	var taken, free []corev1.Node
	for _, node := range nodes {
		if held.Has(node.Name) {
			taken = append(taken, node)
			homeless--
		} else {
			free = append(free, node)
		}
	}
	existing := 0
	for i := range free {
		if offered.Has(free[i].Name) {
			existing++
		}
	}
	want := min(existing, spareNodes) // what is there may stay
	if homeless > 0 {
		want = max(homeless+spareNodes, existing)
		if s.cannotBePlaced() {
			want = max(want, 2*existing)
		}
	}
	free = s.inOrder(free, taken, offered)
	return append(taken, free[:min(want, len(free))]...), nil
}

// heldNodes are the nodes that a wanted pod is on, or whose volumes claims hold.
func (s State) heldNodes() set.Set[string] {
	held := set.New[string]()
	for _, placed := range s.placed() {
		held.Insert(placed.node)
	}
	for _, volume := range s.Volumes {
		if s.isOwn(volume) && volume.Labels[naming.LabelRole] == naming.RoleDisk && !isFree(volume) {
			held.Insert(s.nodeOf(volume))
		}
	}
	return held
}

// offeredNodes are the nodes that have volumes of the CacheNode.
func (s State) offeredNodes() set.Set[string] {
	offered := set.New[string]()
	for _, volume := range s.Volumes {
		if s.isOwn(volume) && volume.Labels[naming.LabelRole] == naming.RoleDisk {
			offered.Insert(s.nodeOf(volume))
		}
	}
	return offered
}

// cannotBePlaced is true where the scheduler has failed for a while with the volumes that there are.
func (s State) cannotBePlaced() bool {
	for _, volume := range s.Volumes {
		if s.isOwn(volume) && s.Now.Sub(volume.CreationTimestamp.Time) < moreNodesAfter {
			return false
		}
	}
	return slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.DeletionTimestamp.IsZero() && isUnschedulable(&p) })
}

func isUnschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

// inOrder sorts free nodes by how well they suit a pod: those that have volumes first, then those in service that the pods
// tolerate, spread over zones as far as the taken ones leave that open. The order is the same on every pass, and another for
// each CacheNode.
func (s State) inOrder(free, taken []corev1.Node, offered set.Set[string]) []corev1.Node {
	inZone := map[string]int{}
	for i := range taken {
		inZone[taken[i].Labels[corev1.LabelTopologyZone]]++
	}
	tolerated := set.New[string]()
	for _, node := range s.tolerated(free) {
		tolerated.Insert(node.Name)
	}
	type ranked struct {
		node                   corev1.Node
		fresh, unfit, zoneRank int
		hash                   uint64
	}
	list := make([]ranked, len(free))
	for i, node := range free {
		_, out := outSince(&node)
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(s.CacheNode.Namespace + "/" + s.CacheNode.Name + " " + node.Name))
		list[i] = ranked{node: node, hash: hash.Sum64()}
		if !offered.Has(node.Name) {
			list[i].fresh = 1
		}
		if out || !tolerated.Has(node.Name) {
			list[i].unfit = 1
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.unfit, b.unfit), cmp.Compare(a.fresh, b.fresh), cmp.Compare(a.hash, b.hash))
	})
	for i := range list {
		zone := list[i].node.Labels[corev1.LabelTopologyZone]
		list[i].zoneRank = inZone[zone]
		inZone[zone]++
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.unfit, b.unfit), cmp.Compare(a.fresh, b.fresh), cmp.Compare(a.zoneRank, b.zoneRank))
	})
	sorted := make([]corev1.Node, len(list))
	for i := range list {
		sorted[i] = list[i].node
	}
	return sorted
}
