package controllers

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// share decides which pods own keys, if routing.mode is Sharded. If keys move from one disk to another, it also
// decides from which disks the new disks fetch the objects of these keys.
func (r *CacheNodeReconciler) share(
	ctx context.Context, s scope, o observed, w wanted, out *outcome,
) (d fleet.Decision, err error) {
	switch {
	case o.agents.unknown: // no agent has reported its features yet
		return r.keepSharing(ctx, s, o)
	case w.effective.Spec.Routing.Mode == v1alpha1.RoutingSharded:
		in, err := r.sharingInput(ctx, s, o, w)
		if err != nil {
			return fleet.Decision{State: o.offered.sharing}, err
		}
		d = fleet.Decide(in)
		out.lookAgain(d.After)
		if d.Announced {
			r.Agents.Hurry(client.ObjectKeyFromObject(s.cacheNode), true)
		}
	default:
		d.State = fleet.Apart(o.offered.sharing)
	}
	if o.offered.stable == nil {
		return d, nil
	}
	handover := effective.Handover(w.effective.Spec.Routing)
	next, after := fleet.DecideDisks(fleet.DisksInput{
		State: d.State, Had: effective.ShardDisks(o.offered.stable.Spec.Disks),
		Wanted: effective.ShardDisks(w.target.Revision.Spec.Disks), Handover: handover, Now: s.now,
		Starts: slices.ContainsFunc(o.pods, func(pod corev1.Pod) bool {
			age := s.now.Sub(pod.CreationTimestamp.Time)
			return pod.DeletionTimestamp.IsZero() && !storage.IsReady(&pod) && age < handover
		}),
	})
	d.State = next
	out.lookAgain(after)
	return d, nil
}

// keepSharing returns a decision that leaves the owners, the number of pods and the disruption budget as they are.
func (r *CacheNodeReconciler) keepSharing(ctx context.Context, s scope, o observed) (fleet.Decision, error) {
	d := o.presentSharing()
	budget := &policyv1.PodDisruptionBudget{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(s.cacheNode), budget); err != nil {
		return d, client.IgnoreNotFound(err)
	}
	d.Guard = manifest.GuardOf(budget)
	return d, nil
}

// presentSharing returns the decision about the owners of keys that stays in effect while the pass makes no new
// decision.
func (o observed) presentSharing() fleet.Decision {
	d := fleet.Decision{State: o.offered.sharing}
	if o.own.statefulSet != nil {
		d.Keep = int(ptr.Deref(o.own.statefulSet.Spec.Replicas, 0))
	}
	return d
}

// sharingInput returns what the pass observed, as the input of package fleet.
func (r *CacheNodeReconciler) sharingInput(
	ctx context.Context, s scope, o observed, w wanted,
) (in fleet.Input, err error) {
	nodes, err := readNodes(ctx, r.Client)
	if err != nil {
		return in, err
	}
	routing := w.effective.Spec.Routing
	in = fleet.Input{
		State: o.offered.sharing, Replicas: int(ptr.Deref(w.effective.Spec.Replicas, 1)),
		Handover: effective.Handover(routing), Now: s.now, Zoned: routing.Scope == v1alpha1.ScopeZone,
		Known: o.knowSharing(),
	}
	for i := range o.pods {
		if pod, ok := o.sharingPod(s.cacheNode.Name, &o.pods[i], nodes); ok {
			in.Pods = append(in.Pods, pod)
		}
	}
	return in, nil
}

// knowSharing returns true if all ready pods already use the owners of keys that the ConfigMap defines.
func (o observed) knowSharing() bool {
	return !slices.ContainsFunc(o.pods, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp.IsZero() && storage.IsReady(&pod) &&
			o.agents.byPod[pod.Name].Report.FleetSerial != o.offered.sharing.Serial
	})
}

// leavingTaints are the taints of a node whose pods will be evicted. They are set by kubectl cordon and drain, by the
// cluster autoscaler, and by Karpenter.
var leavingTaints = []string{
	corev1.TaintNodeUnschedulable, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted",
}

// place describes a node: its zone, and whether its pods will be evicted.
type place struct {
	cordoned bool
	zone     string
}

// readNodes returns the nodes by name.
func readNodes(ctx context.Context, c client.Reader) (map[string]place, error) {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return nil, err
	}
	places := map[string]place{}
	for _, node := range nodes.Items {
		places[node.Name] = place{
			cordoned: slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return slices.Contains(leavingTaints, t.Key)
			}),
			zone: node.Labels[corev1.LabelTopologyZone],
		}
	}
	return places, nil
}

// sharingPod returns the facts about a pod that package fleet needs. ok is false for a pod that does not belong to the
// StatefulSet or is being deleted.
func (o observed) sharingPod(cacheNode string, pod *corev1.Pod, nodes map[string]place) (f fleet.Pod, ok bool) {
	ordinal, ok := naming.Ordinal(cacheNode, pod.Name)
	if !ok || !pod.DeletionTimestamp.IsZero() {
		return f, false
	}
	seen := o.agents.byPod[pod.Name]
	node, placed := nodes[pod.Spec.NodeName]
	f = fleet.Pod{
		Ordinal: ordinal, Leaves: node.cordoned, Zone: node.zone, Placed: placed,
		Able: pod.Annotations[naming.AnnotationPeers] != "" && slices.Contains(seen.Report.Features, agentapi.FeatureRouting),
	}
	f.Unasked = seen.Answered.IsZero()
	if storage.IsReady(pod) {
		f.ReadySince = readySince(pod)
	}
	f.Spent = len(seen.Report.Disks) > 0 && !slices.ContainsFunc(seen.Report.Disks, func(d agentapi.DiskReport) bool {
		return d.State == v1alpha1.DiskHealthy || d.State == v1alpha1.DiskStarting
	})
	return f, true
}

// readySince returns the time at which a ready pod became ready. If that time is not known, it returns the time at
// which the pod was created.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
