package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// placedPod is a wanted pod with a node: the pod is on the node, or some of its claims tie it to the node.
type placedPod struct {
	name, node string
	claims     []*corev1.PersistentVolumeClaim
}

// loseNodes releases the pods of lost nodes, so that they start on other nodes. A node is lost if it is gone, or if it
// is out of service for longer than the spec allows. The number of pods that are released at once is limited by the
// disruption budget. If more than half of the nodes are out of service, no pod is released. In this case, probably the
// operator itself is cut off from the network.
func (p *plan) loseNodes() {
	patience := effective.Duration(p.CacheNode.Spec.Disruption.NodeLossAfter)
	if patience == 0 {
		return
	}
	lost, gone := p.lost(patience)
	if len(lost) == 0 {
		return
	}
	if out, all := p.outOfService(gone); 2*out > all {
		p.Waiting = fmt.Sprintf(
			"%d of %d nodes are out of service, more than half: no pod is moved to another node; the pods of %s wait",
			out, all, nodesOf(lost))
		p.again(time.Minute)
		return
	}
	budget, free := max(p.allowedDown()-p.unavailable(lost), 0), p.free()
	for _, l := range lost {
		if free == 0 && !gone[l.node] { // the node may come back with its disks, unlike a node that is gone
			p.Waiting = fmt.Sprintf("%s waits for node %s to come back: no other node is free for it", l.name, l.node)
			p.again(time.Minute)
			continue
		}
		if budget == 0 {
			p.Waiting = fmt.Sprintf(
				"%s on lost node %s waits for the disruption budget: other pods are not ready", l.name, l.node)
			p.again(5 * time.Second)
			break
		}
		budget, free = budget-1, max(free-1, 0)
		p.release(&p.Keep.Releases, Release{
			Name: l.name, Claims: l.claims, Force: true, Reason: "NodeLost",
			Note: fmt.Sprintf("node %s is lost: %s starts on another, with empty disks", l.node, l.name),
		})
	}
}

// lost returns the pods on nodes that are gone, or that are out of service for longer than patience. It also returns
// the nodes that are gone.
func (p *plan) lost(patience time.Duration) (lost []placedPod, gone map[string]bool) {
	gone = map[string]bool{}
	for _, placed := range p.placed() {
		node := p.node(placed.node)
		if node == nil {
			gone[placed.node] = true
			lost = append(lost, placed)
			continue
		}
		since, out := outSince(node)
		if left := patience - p.Now.Sub(since); out && left > 0 {
			p.again(left + time.Second)
		} else if out {
			lost = append(lost, placed)
		}
	}
	return lost, gone
}

// placed returns an item for each wanted pod and each node on which the pod is or to which its claims tie it.
func (s State) placed() []placedPod {
	var placed []placedPod
	for _, name := range s.podNames() {
		tied := map[string][]*corev1.PersistentVolumeClaim{} // by node
		if pod := s.pod(name); pod != nil && pod.Spec.NodeName != "" {
			tied[pod.Spec.NodeName] = nil
		}
		claims := s.claimsOf(name)
		for _, disk := range slices.Sorted(maps.Keys(claims)) {
			if node := s.nodeOf(s.Volumes[claims[disk].Spec.VolumeName]); node != "" {
				tied[node] = append(tied[node], claims[disk])
			}
		}
		for _, node := range slices.Sorted(maps.Keys(tied)) {
			placed = append(placed, placedPod{name: name, node: node, claims: tied[node]})
		}
	}
	return placed
}

// nodeOf returns the name of the node to which a volume is tied; the node may be gone. It returns "" if the volume is
// tied to no node, or is nil.
func (s State) nodeOf(volume *corev1.PersistentVolume) string {
	if volume == nil {
		return ""
	}
	hostname := hostnameOf(volume)
	if hostname == "" {
		return ""
	}
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Labels[corev1.LabelHostname] == hostname })
	if i >= 0 {
		return s.Nodes[i].Name
	}
	if recorded := volume.Annotations[naming.AnnotationNode]; recorded != "" {
		return recorded
	}
	return hostname
}

// outOfService returns two counts. all is the number of nodes on which the pods may run, plus the nodes that are
// gone. out is the number of these nodes that are out of service; a node that is gone counts as out of service.
func (s State) outOfService(gone map[string]bool) (out, all int) {
	nodes := s.usable()
	for i := range nodes {
		if _, is := outSince(&nodes[i]); is {
			out++
		}
	}
	return out + len(gone), len(nodes) + len(gone)
}

// free counts the nodes in service that could take one more pod. If each node has room for one pod only, nodes with a
// pod do not count.
func (s State) free() int {
	one := s.CacheNode.Spec.Placement.PerNode || s.hasLocalDisks()
	placed, n := s.placed(), 0
	nodes := s.usable()
	for i := range nodes {
		_, out := outSince(&nodes[i])
		taken := slices.ContainsFunc(placed, func(p placedPod) bool { return p.node == nodes[i].Name })
		if !out && (!one || !taken) {
			n++
		}
	}
	return n
}

// unavailable counts the wanted pods that are not ready, without the pods in the parameter lost.
func (s State) unavailable(lost []placedPod) int {
	n := 0
	for _, name := range s.podNames() {
		isLost := slices.ContainsFunc(lost, func(p placedPod) bool { return p.name == name })
		if !isLost && !IsReady(s.pod(name)) {
			n++
		}
	}
	return n
}

func nodesOf(lost []placedPod) string {
	var nodes []string
	for _, p := range lost {
		nodes = append(nodes, p.node)
	}
	slices.Sort(nodes)
	return strings.Join(slices.Compact(nodes), ", ")
}
