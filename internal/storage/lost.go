package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Loss is what is to be done about nodes that are lost.
type Loss struct {
	Releases []Release
	// Waiting says what is not done, and why; "" if nothing is lost.
	Waiting string
	// After is when to look again; 0 for never.
	After time.Duration
}

// lostPod is a pod that cannot come back where its disks are.
type lostPod struct {
	name, host string
	claims     []string
}

// Lost finds the pods whose node is gone, or out of service for longer than the spec allows, and lets go of their claims, so
// that they start elsewhere. Never more at once than the disruption budget allows, and none when more than half of the nodes
// are out: then it is not the nodes that are lost, but whoever looks at them.
func Lost(s State) Loss {
	patience := tuning.Duration(s.CacheNode.Spec.Disruption.NodeLossAfter)
	if patience == 0 {
		return Loss{}
	}
	var loss Loss
	var lost []lostPod
	gone := map[string]bool{}
	for _, p := range s.placed() {
		node := s.Host(p.host)
		if node == nil {
			gone[p.host] = true
			lost = append(lost, p)
			continue
		}
		since, out := outSince(node)
		if left := patience - s.Now.Sub(since); out && left > 0 {
			loss.After = earlier(loss.After, left+time.Second)
		} else if out {
			lost = append(lost, p)
		}
	}
	if len(lost) == 0 {
		return loss
	}
	if out, all := s.outOfService(gone); 2*out > all {
		loss.Waiting = fmt.Sprintf("%d of %d nodes are out of service, more than half: no pod is moved to another; those of %s wait", out, all, hostsOf(lost))
		loss.After = earlier(loss.After, time.Minute)
		return loss
	}
	budget, free := max(Allowed(s.CacheNode.Spec, s.replicas())-s.unavailable(lost), 0), s.free()
	for _, p := range lost {
		if free == 0 && !gone[p.host] { // its disks may come back; those of a node that is gone may not
			loss.Waiting = fmt.Sprintf("%s waits for node %s to come back: no other node is free for it", p.name, p.host)
			loss.After = earlier(loss.After, time.Minute)
			continue
		}
		if budget == 0 {
			loss.Waiting = fmt.Sprintf("%s on lost node %s waits for the disruption budget: other pods are not ready", p.name, p.host)
			loss.After = earlier(loss.After, 5*time.Second)
			break
		}
		budget, free = budget-1, max(free-1, 0)
		loss.Releases = append(loss.Releases, Release{
			Pod: p.name, Claims: p.claims, Force: true, Reason: "NodeLost",
			Note: fmt.Sprintf("node %s is lost: %s starts on another, with empty disks", p.host, p.name),
		})
	}
	return loss
}

// Displaced are the pods that the spec no longer allows where they are, of a CacheNode whose volumes or pods belong to nodes:
// they are let go of there, and start where they may. Whether others are free for them is not looked at.
func Displaced(s State) ([]Release, error) {
	if !s.CacheNode.Spec.Placement.PerNode && !slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.LocalPath != nil }) {
		return nil, nil
	}
	nodes, err := Eligible(s.CacheNode.Spec, s.Nodes)
	if err != nil {
		return nil, err
	}
	if s.CacheNode.Spec.Placement.PerNode {
		nodes = Tolerated(s.CacheNode.Spec, nodes, s.Pods)
	}
	var list []Release
	for _, p := range s.placed() {
		allowed := slices.ContainsFunc(nodes, func(h corev1.Node) bool { return h.Name == p.host })
		if s.Host(p.host) == nil || allowed {
			continue // one that is gone is lost
		}
		list = append(list, Release{
			Pod: p.name, Claims: p.claims, Evict: true, Reason: "NodeLeft",
			Note: fmt.Sprintf("node %s is no longer one for %s: it starts on another, with the disks there", p.host, p.name),
		})
	}
	return list, nil
}

// placed are the pods, also those that are only wanted, with the node that they are on or that their claims tie them to.
func (s State) placed() []lostPod {
	var placed []lostPod
	for ordinal := range s.replicas() {
		name := naming.Pod(s.CacheNode.Name, ordinal)
		tied := map[string][]string{} // node → claims
		if pod := s.pod(ordinal); pod != nil && pod.Spec.NodeName != "" {
			tied[pod.Spec.NodeName] = nil
		}
		for _, claim := range s.ClaimsOf(name) {
			volume := s.Volumes[claim.Spec.VolumeName]
			if volume == nil {
				continue
			}
			if hostname := HostOf(volume); hostname != "" {
				node := hostname
				if h := s.hostNamed(hostname); h != nil {
					node = h.Name
				} else if recorded := volume.Annotations[naming.AnnotationNode]; recorded != "" {
					node = recorded
				}
				tied[node] = append(tied[node], claim.Name)
			}
		}
		for _, node := range slices.Sorted(maps.Keys(tied)) {
			slices.Sort(tied[node])
			placed = append(placed, lostPod{name: name, host: node, claims: tied[node]})
		}
	}
	return placed
}

// Host is the node of that name; nil if there is none.
func (s State) Host(name string) *corev1.Node {
	i := slices.IndexFunc(s.Nodes, func(h corev1.Node) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// hostNamed is the node with a hostname, which is a label of it.
func (s State) hostNamed(hostname string) *corev1.Node {
	i := slices.IndexFunc(s.Nodes, func(h corev1.Node) bool { return h.Labels[corev1.LabelHostname] == hostname })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// outOfService counts the nodes that are out, of those that the pods may run on and those that are gone.
func (s State) outOfService(gone map[string]bool) (out, all int) {
	nodes := s.usable()
	for i := range nodes {
		if _, is := outSince(&nodes[i]); is {
			out++
		}
	}
	return out + len(gone), len(nodes) + len(gone)
}

// usable are the nodes that the pods may run on, whether they are in service or not.
func (s State) usable() []corev1.Node {
	nodes, err := Eligible(s.CacheNode.Spec, s.Nodes)
	if err != nil {
		nodes = s.Nodes
	}
	return Tolerated(s.CacheNode.Spec, nodes, s.Pods)
}

// free counts the nodes that could take one more pod: all that are in service or, where each node has room for one pod
// only, those of them that have none.
func (s State) free() int {
	one := s.CacheNode.Spec.Placement.PerNode || slices.ContainsFunc(s.CacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.LocalPath != nil })
	placed, n := s.placed(), 0
	nodes := s.usable()
	for i := range nodes {
		_, out := outSince(&nodes[i])
		taken := slices.ContainsFunc(placed, func(p lostPod) bool { return p.host == nodes[i].Name })
		if !out && (!one || !taken) {
			n++
		}
	}
	return n
}

// unavailable counts the wanted pods that are not ready and not among the lost.
func (s State) unavailable(lost []lostPod) int {
	n := 0
	for ordinal := range s.replicas() {
		name := naming.Pod(s.CacheNode.Name, ordinal)
		isLost := slices.ContainsFunc(lost, func(p lostPod) bool { return p.name == name })
		if !isLost && !IsReady(s.pod(ordinal)) {
			n++
		}
	}
	return n
}

func hostsOf(lost []lostPod) string {
	var nodes []string
	for _, p := range lost {
		nodes = append(nodes, p.host)
	}
	slices.Sort(nodes)
	return strings.Join(slices.Compact(nodes), ", ")
}

// earlier is the shorter of two times, of which 0 means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}
