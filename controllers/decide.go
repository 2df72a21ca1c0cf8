package controllers

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
)

// decide finds out which pod takes which revision next, and what the ConfigMap offers them.
func (r *CacheNodeReconciler) decide(ctx context.Context, s *scope) error {
	offered, err := readOffered(ctx, r.getOnce(s), s)
	if err != nil {
		return err
	}
	changed, err := r.chooseTemplate(s, offered)
	if err != nil {
		return err
	}
	d := decision(s, offered)
	if changed || !reflect.DeepEqual(d.State, offered.state) {
		// Never from a cache that may not have seen the last write: it could set an older revision back.
		if offered, err = readOffered(ctx, s.once.get, s); err != nil {
			return err
		}
		if _, err = r.chooseTemplate(s, offered); err != nil {
			return err
		}
		d = decision(s, offered)
	}
	s.decision = &d
	s.lookAgain(d.After)
	s.offer = manifest.ConfigMap{Stable: offered.texts[d.State.Stable], Candidate: offered.texts[d.State.Candidate]}
	if d.State.Refused != nil {
		refused, err := json.Marshal(d.State.Refused)
		if err != nil {
			return err
		}
		s.offer.Refused = string(refused)
	}
	r.Agents.Hurry(client.ObjectKeyFromObject(s.node), d.Waiting)
	return nil
}

// chooseTemplate finds the pod template; changed is true if it is not the one of before.
func (r *CacheNodeReconciler) chooseTemplate(s *scope, o offered) (changed bool, err error) {
	s.template, changed, err = manifest.NewTemplate(manifest.NewPodInput(s.node), o.template, r.Cluster.AgentImage, r.Cluster.AgentPullPolicy, s.wanted.ID)
	return changed, err
}

// decision is what package rollout says or, while the pods' agents have yet to be asked, what is.
func decision(s *scope, o offered) rollout.Decision {
	if s.unknown && o.state.Stable != "" {
		return rollout.Decision{State: o.state}
	}
	return rollout.Decide(rolloutInput(s, o))
}

// offered is what the ConfigMap offers now.
type offered struct {
	state rollout.State
	// texts are node.json by revision.
	texts  map[string]string
	stable *agentapi.Revision
	// template is the pod template that was applied last, as text.
	template string
}

// readOffered reads the ConfigMap. What was edited by hand is not there: it is written anew.
func readOffered(ctx context.Context, get func(context.Context, client.ObjectKey, client.Object) error, s *scope) (offered, error) {
	wanted, err := json.Marshal(s.wanted)
	if err != nil {
		return offered{}, err
	}
	o := offered{texts: map[string]string{s.wanted.ID: string(wanted)}}
	live := &corev1.ConfigMap{}
	err = get(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: naming.ConfigMap(s.node.Name)}, live)
	if err != nil || !isOwn(live, s.node) {
		return o, client.IgnoreNotFound(err)
	}
	for key, revision := range map[string]*string{naming.StableKey: &o.state.Stable, naming.CandidateKey: &o.state.Candidate} {
		text := live.Data[key]
		if !agentapi.IsWhole([]byte(text)) {
			continue
		}
		cacheNode, err := agentapi.ReadRevision([]byte(text))
		if err != nil {
			continue
		}
		*revision, o.texts[cacheNode.ID] = cacheNode.ID, text
		if key == naming.StableKey {
			o.stable = &cacheNode
		}
	}
	o.template = live.Annotations[naming.AnnotationTemplate]
	if text := live.Annotations[naming.AnnotationRefused]; text != "" {
		refused := &rollout.Refusal{}
		if json.Unmarshal([]byte(text), refused) == nil {
			o.state.Refused = refused
		}
	}
	return o, nil
}

// rolloutInput is pure: what was observed, in the terms of package rollout.
func rolloutInput(s *scope, o offered) rollout.Input {
	replicas := int(ptr.Deref(s.node.Spec.Replicas, 1))
	width, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(s.node.Spec.Rollout.MaxUnavailable, intstr.FromInt32(1))), replicas, true)
	if err != nil {
		width = 1 // the schema allows nothing else
	}
	in := rollout.Input{
		State: o.state, Wanted: s.wanted.ID, Replicas: replicas, Width: max(width, 1), Now: s.now,
		Canary:  time.Duration(ptr.Deref(s.node.Spec.Rollout.Canary.Seconds, 0)) * time.Second,
		Retry:   s.node.Annotations[naming.AnnotationRetry],
		Settled: isSettled(s.statefulSet, s.template),
		Ordered: s.template.IsOrdered(s.podVolumes()),
	}
	in.NewPods = o.stable != nil && manifest.NeedsNewPods(*o.stable, s.wanted)
	for i := range s.pods {
		pod := &s.pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		seen := s.observations[pod.Name]
		p := rollout.Pod{
			Name: pod.Name, Ready: isReady(pod), Silent: seen.isSilentIn(pod, s.now),
			Assigned: pod.Annotations[naming.AnnotationRevision], AssignedAt: seen.AssignedAt, Nudges: seen.Nudges,
			Revision: seen.Report.Revision, Since: seen.Report.Since,
			Current: isCurrent(pod, s.statefulSet, s.template),
		}
		if refusal := seen.Report.Refusal; refusal != nil {
			p.Refused = &rollout.Refusal{Revision: refusal.Revision, Message: truncated(refusal.Message, 1024), Retry: refusal.Retry}
		}
		in.Pods = append(in.Pods, p)
	}
	return in
}

// isSettled is true when the StatefulSet controller makes pods from the template.
func isSettled(set *appsv1.StatefulSet, template manifest.Template) bool {
	return set != nil && set.DeletionTimestamp.IsZero() && set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != "" &&
		set.Spec.Template.Annotations[naming.AnnotationInput] == template.InputHash
}

// isCurrent is true for a pod of the template; where the StatefulSet is settled, it must also be of its revision, or somebody
// has edited the StatefulSet by hand.
func isCurrent(pod *corev1.Pod, set *appsv1.StatefulSet, template manifest.Template) bool {
	return pod.Annotations[naming.AnnotationInput] == template.InputHash &&
		(!isSettled(set, template) || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision)
}
