package controllers

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// decide returns which pod takes which revision next. Until the operator has asked the pods' agents, decide keeps the
// current state.
func decide(s scope, o observed, w wanted, template manifest.Template) rollout.Decision {
	if o.agents.unknown && o.offered.state.Stable != "" {
		return rollout.Decision{State: o.offered.state}
	}
	return rollout.Decide(rolloutInput(s, o, w, template))
}

// rolloutInput returns what the pass observed, as the input of package rollout.
func rolloutInput(s scope, o observed, w wanted, template manifest.Template) rollout.Input {
	spec := w.effective.Spec
	replicas := int(ptr.Deref(spec.Replicas, 1))
	maxUnavailable := ptr.Deref(spec.Rollout.MaxUnavailable, intstr.FromInt32(1))
	width, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, replicas, true)
	if err != nil {
		width = 1 // cannot happen: the schema rejects such values
	}
	in := rollout.Input{
		State: o.offered.state, Wanted: w.target.Revision.ID, Replicas: replicas, Width: max(width, 1), Now: s.now,
		Canary:  time.Duration(ptr.Deref(spec.Rollout.Canary.Seconds, 0)) * time.Second,
		Retry:   s.cacheNode.Annotations[v1alpha1.AnnotationRetry],
		Settled: isSettled(o.own.statefulSet, template),
		Ordered: template.IsOrdered(o.podVolumes(s.cacheNode.Name)),
	}
	if spec.Routing.Mode == v1alpha1.RoutingSharded {
		in.Found = findsPods(o.agents.byPod)
	}
	in.NewPods = o.offered.stable != nil && manifest.NeedsNewPods(*o.offered.stable, w.target.Revision)
	for i := range o.pods {
		pod := &o.pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		seen := o.agents.byPod[pod.Name]
		rolled := rollout.Pod{
			Name: pod.Name, Ready: storage.IsReady(pod), Silent: seen.IsSilentIn(pod, s.now),
			Assigned: pod.Annotations[naming.AnnotationRevision], AssignedAt: seen.AssignedAt, Nudges: seen.Nudges,
			Revision: seen.Report.Revision, Since: seen.Report.Since, ReadySince: readySince(pod),
			Current: isCurrent(pod, o.own.statefulSet, template),
		}
		if refusal := seen.Report.Refusal; refusal != nil {
			rolled.Refused = new(*refusal)
		}
		in.Pods = append(in.Pods, rolled)
	}
	return in
}

// findsPods returns the time within which nginx in every pod usually finds the address of a new pod. It ignores agents
// that have not answered yet, because these agents belong to new pods.
func findsPods(agents map[string]agents.Observation) time.Duration {
	for _, seen := range agents {
		if !seen.Answered.IsZero() && seen.Report.Renderer < agentapi.ResolvingRenderer {
			return effective.FindsPodsByName
		}
	}
	return effective.FindsPods
}

// isSettled returns true if the StatefulSet controller creates pods from the template.
func isSettled(set *appsv1.StatefulSet, template manifest.Template) bool {
	return set != nil && set.DeletionTimestamp.IsZero() &&
		set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != "" &&
		set.Spec.Template.Annotations[naming.AnnotationInput] == template.InputHash
}

// isCurrent returns true for a pod that was created from the template. If the StatefulSet is settled, the pod must
// also have the update revision of the StatefulSet. If it has another revision, somebody has edited the StatefulSet
// by hand.
func isCurrent(pod *corev1.Pod, set *appsv1.StatefulSet, template manifest.Template) bool {
	return pod.Annotations[naming.AnnotationInput] == template.InputHash &&
		(!isSettled(set, template) || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision)
}
