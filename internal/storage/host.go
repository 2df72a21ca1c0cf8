package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Eligible are the nodes that nodeSelector and affinity of the spec allow, by name. An affinity that cannot be read is an
// error of the spec.
func Eligible(spec v1alpha1.CacheNodeSpec, nodes []corev1.Node) ([]corev1.Node, error) {
	required := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: spec.Pod.NodeSelector, Affinity: spec.Pod.Affinity,
	}})
	var eligible []corev1.Node
	for i := range nodes {
		matches, err := required.Match(&nodes[i])
		if err != nil {
			return nil, fmt.Errorf("spec.pod.affinity.nodeAffinity: %w", err)
		}
		if matches && nodes[i].DeletionTimestamp.IsZero() {
			eligible = append(eligible, nodes[i])
		}
	}
	slices.SortFunc(eligible, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return eligible, nil
}

// Tolerated are those of the nodes whose taints the pods tolerate. The taints by which Kubernetes says how a node is at the
// moment do not count: a node that is cordoned or not ready keeps its pod. Nor does one that keeps new pods away count for a
// node that has a pod already.
func Tolerated(spec v1alpha1.CacheNodeSpec, nodes []corev1.Node, pods []corev1.Pod) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool {
		has := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node.Name })
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") ||
				(has && taint.Effect == corev1.TaintEffectNoSchedule) {
				return false
			}
			return !slices.ContainsFunc(spec.Pod.Tolerations, func(t corev1.Toleration) bool {
				return tolerates(t, taint)
			})
		})
	})
}

// tolerates is the rule of the scheduler (Kubernetes, "Taints and Tolerations"), but for comparisons of numbers.
func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Value == taint.Value && t.Key != ""
}

// outSince is since when a node is out of service; ok is false for one that is in service. A person's taint
// node.kubernetes.io/out-of-service means that it is out for good.
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

// HostOf is the node that a volume is tied to, by the label that its node affinity names; "" for a volume that is tied to
// none, or to more than one.
func HostOf(volume *corev1.PersistentVolume) (hostname string) {
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
