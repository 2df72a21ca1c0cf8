package controllers

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
)

// decide chooses which pod takes which revision next, and what the ConfigMap offers the pods.
func (r *CacheNodeReconciler) decide(ctx context.Context, p *pass) error {
	changed, err := r.chooseTemplate(p)
	if err != nil {
		return err
	}
	d := p.decisionOn()
	if changed || !reflect.DeepEqual(d.State, p.offered.state) {
		// A change is never decided from a cache that may lag behind our last write: it could bring an older revision back.
		if err := r.readOfferedAgain(ctx, p); err != nil {
			return err
		}
		if _, err = r.chooseTemplate(p); err != nil {
			return err
		}
		d = p.decisionOn()
	}
	wanted, err := json.Marshal(p.target.Revision)
	if err != nil {
		return err
	}
	texts := maps.Clone(p.offered.texts)
	texts[p.target.Revision.ID] = string(wanted)
	p.decision = &d
	p.lookAgain(d.After)
	p.offer = manifest.ConfigMap{Stable: texts[d.State.Stable], Candidate: texts[d.State.Candidate]}
	if p.offer.OriginPolicy, err = r.originPolicy(); err != nil {
		return err
	}
	if d.State.Refused != nil {
		refused, err := json.Marshal(d.State.Refused)
		if err != nil {
			return err
		}
		p.offer.Refused = string(refused)
	}
	r.Agents.Hurry(client.ObjectKeyFromObject(p.cacheNode), d.Waiting)
	return nil
}

// originPolicy returns what the operator's flags say about origins, as text for the agents.
func (r *CacheNodeReconciler) originPolicy() (string, error) {
	return agentapi.OriginPolicy{
		DeniedRanges: r.Cluster.Policy.DeniedOriginRanges, Namespaces: r.Cluster.Policy.OriginNamespaces,
	}.Text()
}

// keepPolicy runs while the spec is not accepted, perhaps because of the flags. The agents of the spec that was
// accepted last obey the flags of today. Only that key is written: the rest of the ConfigMap may be newer than the
// cache.
func (r *CacheNodeReconciler) keepPolicy(ctx context.Context, p *pass) error {
	policy, err := r.originPolicy()
	if err != nil || p.configMap == nil || !isOwn(p.configMap, p.cacheNode) ||
		p.configMap.Data[naming.OriginPolicyKey] == policy {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{naming.OriginPolicyKey: policy}})
	if err != nil {
		return err
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.configMap.Namespace, Name: p.configMap.Name}}
	return client.IgnoreNotFound(r.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(naming.FieldManager)))
}

// readOfferedAgain reads the ConfigMap from the API server, if there was one.
func (r *CacheNodeReconciler) readOfferedAgain(ctx context.Context, p *pass) error {
	key := client.ObjectKey{Namespace: p.cacheNode.Namespace, Name: naming.ConfigMap(p.cacheNode.Name)}
	if p.absent[key] {
		return nil
	}
	live := &corev1.ConfigMap{}
	if err := r.Live.Get(ctx, key, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if isOwn(live, p.cacheNode) {
		p.offered = readOffered(live)
	}
	return nil
}

// chooseTemplate sets the pod template; changed is true if it differs from the one applied last.
func (r *CacheNodeReconciler) chooseTemplate(p *pass) (changed bool, err error) {
	p.template, changed, err = manifest.NewTemplate(
		p.target.PodInput, p.offered.template, r.Cluster.AgentImage, r.Cluster.AgentPullPolicy, p.target.Revision.ID,
	)
	return changed, err
}

// decisionOn returns the decision of package rollout. It keeps the current state while the pods' agents have yet to be
// asked.
func (p *pass) decisionOn() rollout.Decision {
	if p.unknown && p.offered.state.Stable != "" {
		return rollout.Decision{State: p.offered.state}
	}
	return rollout.Decide(p.rolloutInput())
}

// offered is what the ConfigMap offers the pods.
type offered struct {
	state rollout.State
	// texts has the revisions as text, by ID.
	texts             map[string]string
	stable, candidate *agentapi.Revision
	// template is the pod template that was applied last, as text.
	template string
	// sharing says which pods own keys.
	sharing fleet.State
}

// readOffered reads the ConfigMap, which may be nil. It ignores a revision that was edited by hand, so the pass writes
// it again.
func readOffered(configMap *corev1.ConfigMap) offered {
	o := offered{texts: map[string]string{}}
	if configMap == nil {
		return o
	}
	for key, id := range map[string]*string{naming.StableKey: &o.state.Stable, naming.CandidateKey: &o.state.Candidate} {
		text := configMap.Data[key]
		if !agentapi.IsWhole([]byte(text)) {
			continue
		}
		revision, err := agentapi.ReadRevision([]byte(text))
		if err != nil {
			continue
		}
		*id, o.texts[revision.ID] = revision.ID, text
		if key == naming.StableKey {
			o.stable = &revision
		} else {
			o.candidate = &revision
		}
	}
	o.template = configMap.Annotations[naming.AnnotationTemplate]
	o.sharing = readSharing(configMap)
	if text := configMap.Annotations[naming.AnnotationRefused]; text != "" {
		refused := &agentapi.Refusal{}
		if json.Unmarshal([]byte(text), refused) == nil {
			o.state.Refused = refused
		}
	}
	return o
}

// rolloutInput is what the pass observed, in the terms of package rollout.
func (p *pass) rolloutInput() rollout.Input {
	spec := p.effective.Spec
	replicas := int(ptr.Deref(spec.Replicas, 1))
	maxUnavailable := ptr.Deref(spec.Rollout.MaxUnavailable, intstr.FromInt32(1))
	width, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, replicas, true)
	if err != nil {
		width = 1 // the schema allows nothing else
	}
	in := rollout.Input{
		State: p.offered.state, Wanted: p.target.Revision.ID, Replicas: replicas, Width: max(width, 1), Now: p.now,
		Canary:  time.Duration(ptr.Deref(spec.Rollout.Canary.Seconds, 0)) * time.Second,
		Retry:   p.cacheNode.Annotations[v1alpha1.AnnotationRetry],
		Settled: isSettled(p.statefulSet, p.template),
		Ordered: p.template.IsOrdered(p.podVolumes()),
	}
	if spec.Routing.Mode == v1alpha1.RoutingSharded {
		in.Found = findsPods(p.agents)
	}
	in.NewPods = p.offered.stable != nil && manifest.NeedsNewPods(*p.offered.stable, p.target.Revision)
	for i := range p.pods {
		pod := &p.pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		seen := p.agents[pod.Name]
		rolled := rollout.Pod{
			Name: pod.Name, Ready: storage.IsReady(pod), Silent: seen.isSilentIn(pod, p.now),
			Assigned: pod.Annotations[naming.AnnotationRevision], AssignedAt: seen.AssignedAt, Nudges: seen.Nudges,
			Revision: seen.Report.Revision, Since: seen.Report.Since, ReadySince: readySince(pod),
			Current: isCurrent(pod, p.statefulSet, p.template),
		}
		if refusal := seen.Report.Refusal; refusal != nil {
			rolled.Refused = &agentapi.Refusal{Revision: refusal.Revision, Message: refusal.Message, Retry: refusal.Retry}
		}
		in.Pods = append(in.Pods, rolled)
	}
	return in
}

// findsPods returns how long it takes until nginx in all pods has found a new pod. An agent that has not answered yet
// is that of a new pod.
func findsPods(agents map[string]Observation) time.Duration {
	for _, seen := range agents {
		if !seen.Answered.IsZero() && seen.Report.Renderer < agentapi.ResolvingRenderer {
			return effective.FindsPodsByName
		}
	}
	return effective.FindsPods
}

// replace evicts the next pod to be replaced, so that the StatefulSet controller creates it from the current pod
// template.
func (r *CacheNodeReconciler) replace(ctx context.Context, p *pass) error {
	if p.decision.Replace == "" || p.remaking {
		return nil
	}
	for i := range p.pods {
		pod := &p.pods[i]
		if pod.Name != p.decision.Replace || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		done := false
		err := r.execute(p, func(e *executor.Executor) (err error) {
			done, err = e.Evict(ctx, pod, "the pod template changed")
			return err
		})
		if err != nil || !done {
			return err
		}
		r.Events.Eventf(p.cacheNode, pod, corev1.EventTypeNormal, "PodReplaced", "Replace",
			"%s is replaced from the new pod template", pod.Name)
	}
	return nil
}

// isSettled is true when the StatefulSet controller creates pods from the template.
func isSettled(set *appsv1.StatefulSet, template manifest.Template) bool {
	return set != nil && set.DeletionTimestamp.IsZero() &&
		set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != "" &&
		set.Spec.Template.Annotations[naming.AnnotationInput] == template.InputHash
}

// isCurrent is true for a pod of the template. The pod of a settled StatefulSet must also have its update revision:
// otherwise somebody has edited the StatefulSet by hand.
func isCurrent(pod *corev1.Pod, set *appsv1.StatefulSet, template manifest.Template) bool {
	return pod.Annotations[naming.AnnotationInput] == template.InputHash &&
		(!isSettled(set, template) || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision)
}
