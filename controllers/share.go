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

// share decides which pods own keys, if routing.mode is Sharded, and from which disks keys are filled that move to
// others. It adds that to what the ConfigMap offers.
func (r *CacheNodeReconciler) share(ctx context.Context, p *pass) error {
	p.sharing = fleet.Decision{State: p.offered.sharing}
	decide := r.decideSharing
	if p.unknown { // no agent has reported its features yet
		decide = r.keepSharing
	}
	if err := decide(ctx, p); err != nil {
		return err
	}
	if s := p.sharing.State; s.Serial > 0 {
		p.offer.Fleet, p.offer.FleetUntil = s.String(), naming.Never
		if !s.Until.IsZero() {
			p.offer.FleetUntil = s.Until.UTC().Format(time.RFC3339)
		}
	}
	return nil
}

// keepSharing keeps pods and the budget as they are.
func (r *CacheNodeReconciler) keepSharing(ctx context.Context, p *pass) error {
	if p.statefulSet != nil {
		p.sharing.Keep = int(ptr.Deref(p.statefulSet.Spec.Replicas, 0))
	}
	budget := &policyv1.PodDisruptionBudget{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(p.cacheNode), budget); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.sharing.Guard = manifest.GuardOf(budget)
	return nil
}

func (r *CacheNodeReconciler) decideSharing(ctx context.Context, p *pass) error {
	routing := p.effective.Spec.Routing
	if routing.Mode == v1alpha1.RoutingSharded {
		nodes, err := r.nodes(ctx)
		if err != nil {
			return err
		}
		in := fleet.Input{
			State: p.offered.sharing, Replicas: int(ptr.Deref(p.effective.Spec.Replicas, 1)),
			Handover: effective.Handover(routing), Now: p.now, Zoned: routing.Scope == v1alpha1.ScopeZone,
			Known: p.knowSharing(),
		}
		for i := range p.pods {
			if pod, ok := p.sharingPod(&p.pods[i], nodes); ok {
				in.Pods = append(in.Pods, pod)
			}
		}
		p.sharing = fleet.Decide(in)
		p.lookAgain(p.sharing.After)
		if p.sharing.Announced {
			r.Agents.Hurry(client.ObjectKeyFromObject(p.cacheNode), true)
		}
	} else { // each pod serves all keys
		s := &p.sharing.State
		if s.Owning() > 0 {
			s.Serial++
		}
		s.Owners, s.Previous, s.Zones, s.Until = fleet.Owners{}, fleet.Owners{}, nil, time.Time{}
	}
	if p.offered.stable == nil {
		return nil
	}
	disks := fleet.DisksInput{
		State: p.sharing.State, Had: effective.ShardDisks(p.offered.stable.Spec.Disks),
		Wanted: effective.ShardDisks(p.target.Revision.Spec.Disks), Handover: effective.Handover(routing), Now: p.now,
		Starts: slices.ContainsFunc(p.pods, func(pod corev1.Pod) bool {
			age := p.now.Sub(pod.CreationTimestamp.Time)
			return pod.DeletionTimestamp.IsZero() && !storage.IsReady(&pod) && age < effective.Handover(routing)
		}),
	}
	next, after := fleet.DecideDisks(disks)
	p.sharing.State = next
	p.lookAgain(after)
	r.tellLeaving(p)
	return nil
}

// knowSharing is true if all pods that are ready route by what the ConfigMap says of the owners of keys.
func (p *pass) knowSharing() bool {
	return !slices.ContainsFunc(p.pods, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp.IsZero() && storage.IsReady(&pod) &&
			p.agents[pod.Name].Report.FleetSerial != p.offered.sharing.Serial
	})
}

// leavingTaints are the taints of a node whose pods will be evicted: by kubectl cordon and drain, by the cluster
// autoscaler and by Karpenter.
var leavingTaints = []string{
	corev1.TaintNodeUnschedulable, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted",
}

// place is a node: whether pods will be moved away from it, and its zone.
type place struct {
	cordoned bool
	zone     string
}

// nodes are the nodes by name.
func (r *CacheNodeReconciler) nodes(ctx context.Context) (map[string]place, error) {
	nodes := &corev1.NodeList{}
	if err := r.List(ctx, nodes); err != nil {
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

// sharingPod is a pod in the terms of package fleet; ok is false for one that is not the StatefulSet's.
func (p *pass) sharingPod(pod *corev1.Pod, nodes map[string]place) (f fleet.Pod, ok bool) {
	ordinal, ok := naming.Ordinal(p.cacheNode.Name, pod.Name)
	if !ok || !pod.DeletionTimestamp.IsZero() {
		return f, false
	}
	seen := p.agents[pod.Name]
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

// readySince is when a pod that is ready became so, or when it was created if that is not known.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// readSharing is the state of sharing in the ConfigMap; the zero value if there is none or it was damaged.
func readSharing(configMap *corev1.ConfigMap) (s fleet.State) {
	f, err := fleet.Read(configMap.Data[naming.FleetKey])
	if err != nil {
		return s
	}
	s.Fleet = f
	if until, err := time.Parse(time.RFC3339, configMap.Annotations[naming.AnnotationFleet]); err == nil {
		s.Until = until
	}
	return s
}
