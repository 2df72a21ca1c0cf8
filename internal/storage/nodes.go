package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// maxNodes is the maximum of spec.replicas, and therefore the maximum number of nodes with one pod each.
const maxNodes = 1000

// leaveAfter is the time after which a pod is moved away from a node that no longer matches the spec. The pod is not
// moved at once, because a label may be missing only for a moment.
const leaveAfter = 10 * time.Second

// followNodes moves pods from nodes that the spec no longer allows. With one pod on each node, it also sets the number
// of pods to the number of nodes.
func (p *plan) followNodes() {
	nodes, err := eligible(p.CacheNode.Spec, p.Nodes)
	if err != nil {
		p.Follow = Follow{Invalid: err}
		return
	}
	if p.CacheNode.Spec.Placement.PerNode {
		nodes = p.tolerated(nodes)
		if !p.scaleTo(len(nodes)) {
			return
		}
	}
	displaced := p.displaced(nodes)
	if !p.lasts(&p.State.Since.Displaced, &p.Actions.Since.Displaced, len(displaced) > 0) {
		return
	}
	for _, r := range displaced {
		p.release(&p.Follow.Releases, r)
	}
}

// scaleTo sets the number of pods to the number of nodes. It scales up at once. It scales down by one pod at a time,
// and only if the plan does not wait for a lost node and no pod is being deleted. It returns false if planning stops
// here.
func (p *plan) scaleTo(want int) bool {
	has := p.replicas()
	switch {
	case want == 0:
		p.Follow = Follow{NoNode: true}
		return false
	case want > maxNodes:
		p.Follow = Follow{Invalid: fmt.Errorf(
			"spec.placement.perNode: more than %d nodes match: narrow them down by spec.pod.nodeSelector", maxNodes)}
		return false
	}
	last := p.lasts(&p.State.Since.Fewer, &p.Actions.Since.Fewer, want < has)
	going := slices.ContainsFunc(p.Pods, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
	switch {
	case want > has:
		p.Follow.Replicas = new(int32(want)) //nolint:gosec // at most maxNodes
	case last && p.Waiting == "" && !going:
		p.Follow.Replicas = new(int32(has - 1)) //nolint:gosec // at most maxNodes
	}
	return true
}

// lasts reports whether a state has lasted for the time leaveAfter. exists says whether the state exists now. since is
// the time at which the state began, as the previous pass stored it. lasts stores this time in keep for the next pass.
// If the state does not exist, keep stays zero.
func (p *plan) lasts(since, keep *time.Time, exists bool) bool {
	if !exists {
		return false
	}
	if *keep = *since; keep.IsZero() {
		*keep = p.Now
	}
	left := leaveAfter - p.Now.Sub(*keep)
	if left > 0 {
		p.again(left + time.Second)
	}
	return left <= 0
}

// displaced returns the releases for the pods on nodes that the spec no longer allows, if the CacheNode ties volumes or
// pods to nodes. It does not consider whether other nodes are free.
func (p *plan) displaced(nodes []corev1.Node) []Release {
	if !p.CacheNode.Spec.Placement.PerNode && !p.hasLocalDisks() {
		return nil
	}
	var list []Release
	for _, placed := range p.placed() {
		allowed := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == placed.node })
		if p.node(placed.node) == nil || allowed {
			continue // loseNodes handles the nodes that are gone
		}
		list = append(list, Release{
			Name: placed.name, Claims: placed.claims, Evict: true, Reason: "NodeLeft",
			Note: fmt.Sprintf("the spec no longer allows node %s: %s starts on another node, with the disks there",
				placed.node, placed.name),
		})
	}
	return list
}

// eligible returns the nodes that the nodeSelector and affinity of the spec allow, sorted by name. An affinity that
// cannot be parsed is an error in the spec.
func eligible(spec v1alpha1.CacheNodeSpec, nodes []corev1.Node) ([]corev1.Node, error) {
	required := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: spec.Pod.NodeSelector, Affinity: spec.Pod.Affinity,
	}})
	var list []corev1.Node
	for i := range nodes {
		matches, err := required.Match(&nodes[i])
		if err != nil {
			return nil, fmt.Errorf("spec.pod.affinity.nodeAffinity: %w", err)
		}
		if matches && nodes[i].DeletionTimestamp.IsZero() {
			list = append(list, nodes[i])
		}
	}
	slices.SortFunc(list, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// tolerated returns the nodes whose taints the pods tolerate. Taints by which Kubernetes reports the state of a node
// are ignored, so a node that is cordoned or not ready keeps its pod. On a node that already has a pod, taints with the
// effect NoSchedule are ignored too.
func (s State) tolerated(nodes []corev1.Node) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool {
		has := slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
			return p.Spec.NodeName == node.Name && p.DeletionTimestamp.IsZero()
		})
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") ||
				(has && taint.Effect == corev1.TaintEffectNoSchedule) {
				return false
			}
			return !slices.ContainsFunc(s.CacheNode.Spec.Pod.Tolerations, func(t corev1.Toleration) bool {
				return t.ToleratesTaint(klog.Logger{}, &taint, true)
			})
		})
	})
}

// usable returns the nodes on which the pods may run, whether the nodes are in service or not.
func (s State) usable() []corev1.Node {
	nodes, err := eligible(s.CacheNode.Spec, s.Nodes)
	if err != nil {
		nodes = s.Nodes
	}
	return s.tolerated(nodes)
}

// node returns the node with a name; nil if there is none.
func (s State) node(name string) *corev1.Node {
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// outSince returns the time since which a node is out of service. ok is false for a node in service. If an
// administrator has set the taint node.kubernetes.io/out-of-service, the node does not come back, and since is the zero
// time.
func outSince(node *corev1.Node) (since time.Time, ok bool) {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return time.Time{}, true
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// hostnameOf returns the hostname label of the node to which a volume is tied by its node affinity. It returns "" for
// a volume that is tied to no node, or to more than one node.
func hostnameOf(volume *corev1.PersistentVolume) string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return ""
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return ""
	}
	for _, e := range terms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}
