package storage

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/set"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// spareNodes is the number of additional nodes that get volumes. Besides them, each pod that has no node yet needs
	// one node with volumes. The additional nodes give the scheduler a choice.
	spareNodes = 2
	// moreNodesAfter is the time that the scheduler has to place a pod after the creation of the newest volume. If the
	// scheduler does not place the pod in this time, the number of nodes with free volumes doubles.
	moreNodesAfter = 10 * time.Second
)

// volumeNodes returns the nodes on which the disks with a localPath have volumes. With one pod on each node, these are
// all nodes. Otherwise, these are three groups of nodes: nodes that pods or claims use, one free node for each pod
// without a node, and a few more free nodes. The scheduler considers only nodes with volumes. So the number of free
// nodes with volumes doubles whenever the scheduler cannot place a pod. needed is the minimum number of nodes that the
// pods require; the list begins with these nodes.
func (s State) volumeNodes() (nodes []corev1.Node, needed int, err error) {
	if s.replicas() == 0 || !s.hasLocalDisks() {
		return nil, 0, nil
	}
	nodes, err = eligible(s.CacheNode.Spec, s.Nodes)
	if err != nil || s.CacheNode.Spec.Placement.PerNode {
		return nodes, len(nodes), err
	}
	held, offered := s.heldNodes(), s.offeredNodes()
	var taken, free []corev1.Node
	existing := 0
	for _, node := range nodes {
		if held.Has(node.Name) {
			taken = append(taken, node)
			continue
		}
		free = append(free, node)
		if offered.Has(node.Name) {
			existing++
		}
	}
	homeless := s.homeless(nodes)
	want := min(existing, spareNodes) // as a reserve, if they have volumes already
	if homeless > 0 {
		want = max(homeless+spareNodes, existing)
		if late, _ := s.cannotBePlaced(); late {
			want = max(want, 2*existing)
		}
	}
	free = s.withoutTaken(s.inOrder(free, taken, offered), homeless)
	return append(taken, free[:min(want, len(free))]...), len(taken) + homeless, nil
}

// homeless counts the wanted pods that have no node: they are on none of the nodes, and no claim ties them to one of
// the nodes.
func (s State) homeless(nodes []corev1.Node) int {
	placed := set.New[string]()
	for _, p := range s.placed() {
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == p.node }) {
			placed.Insert(p.name)
		}
	}
	return s.replicas() - placed.Len()
}

// withoutTaken returns the nodes on which no other volume uses a path of this CacheNode's disks. If these are too few
// nodes, it returns all nodes. For a new CacheNode, it also returns all nodes, so that the status reports the taken
// paths. A taken path may be a mistake in the spec.
func (s State) withoutTaken(nodes []corev1.Node, homeless int) []corev1.Node {
	if s.All == nil || (len(s.Claims) == 0 && len(s.Pods) == 0) {
		return nodes
	}
	clear := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool {
		return slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool {
			return d.LocalPath != nil && s.overlapping(&node, d.LocalPath.Path) != ""
		})
	})
	if len(clear) < homeless {
		return nodes
	}
	return clear
}

// heldNodes returns the nodes on which a wanted pod is or to which it is tied. It also returns the nodes with volumes
// that claims use.
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

// offeredNodes returns the nodes that have volumes of the CacheNode.
func (s State) offeredNodes() set.Set[string] {
	offered := set.New[string]()
	for _, volume := range s.Volumes {
		if s.isOwn(volume) && volume.Labels[naming.LabelRole] == naming.RoleDisk {
			offered.Insert(s.nodeOf(volume))
		}
	}
	return offered
}

// cannotBePlaced reports whether a pod is still not scheduled when the time moreNodesAfter has passed since the newest
// volume was created. If this time has not passed yet, after is the time until the next check; 0 means never.
func (s State) cannotBePlaced() (late bool, after time.Duration) {
	if !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp.IsZero() && isUnschedulable(&p)
	}) {
		return false, 0
	}
	var newest time.Time
	for _, volume := range s.Volumes {
		if s.isOwn(volume) && volume.CreationTimestamp.After(newest) {
			newest = volume.CreationTimestamp.Time
		}
	}
	if left := moreNodesAfter - s.Now.Sub(newest); left > 0 {
		return false, left + time.Second
	}
	return true, 0
}

func isUnschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

// inOrder sorts free nodes by how well they suit a pod. Fit nodes (see isFit) come first. Among these, nodes that
// already have volumes come first, and then nodes in the zones with the fewest taken nodes. The order is the same in
// every pass. Each CacheNode has its own order.
func (s State) inOrder(free, taken []corev1.Node, offered set.Set[string]) []corev1.Node {
	inZone := map[string]int{}
	for i := range taken {
		inZone[taken[i].Labels[corev1.LabelTopologyZone]]++
	}
	type ranked struct {
		node                   corev1.Node
		fresh, unfit, zoneRank int
		hash                   uint64
	}
	list := make([]ranked, len(free))
	for i, node := range free {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(s.CacheNode.Namespace + "/" + s.CacheNode.Name + " " + node.Name))
		list[i] = ranked{node: node, hash: hash.Sum64()}
		if !offered.Has(node.Name) {
			list[i].fresh = 1
		}
		if !s.isFit(&node) {
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

// isFit reports whether a node is in service and the pods tolerate its taints, except for PreferNoSchedule. In
// contrast to tolerated, isFit also considers the taints that report the state of the node.
func (s State) isFit(node *corev1.Node) bool {
	if _, out := outSince(node); out {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		isTolerated := slices.ContainsFunc(s.CacheNode.Spec.Pod.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Logger{}, &taint, true)
		})
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !isTolerated
	})
}
