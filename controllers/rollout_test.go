package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// fakeAgents replaces the agents of pods, because an API server alone runs no pods. Each agent takes the revision that
// its pod's annotation names, unless it refuses that revision.
type fakeAgents struct {
	mutex sync.Mutex
	o     *operator
	// order lists the pods in the order in which they took revisions.
	order   []string
	running map[string]string
	refuses map[string]bool // by revision
	// refusesOf returns the routes that make nginx refuse a revision; nil if there are none.
	refusesOf func(revision string) []string
	silent    map[string]bool
	deaf      map[string]bool // pods that route by an old fleet
	disks     map[string][]agentapi.DiskReport
	reads     map[string]int // by pod
	// purgeHead is the place in the journal of purges that all agents report.
	purgeHead int64
	// old are the pods whose agents are so old that they do not report the number of their renderer.
	old map[string]bool
	// unsafe contains the URLs that all agents report, because a client's request may have changed something at the
	// origin.
	unsafe []agentapi.UnsafeURL
}

func newAgents() *fakeAgents {
	return &fakeAgents{
		running: map[string]string{}, refuses: map[string]bool{}, silent: map[string]bool{}, deaf: map[string]bool{},
		old:   map[string]bool{},
		disks: map[string][]agentapi.DiskReport{}, reads: map[string]int{},
	}
}

func (a *fakeAgents) read(ctx context.Context, _ *agentclient.Client, address string) (agentapi.Report, error) {
	var o *operator
	a.set(func() { o = a.o })
	if o == nil {
		return agentapi.Report{}, errors.New("the operator has not started")
	}
	pods := &corev1.PodList{}
	if err := o.client.List(ctx, pods, client.InNamespace("default")); err != nil {
		return agentapi.Report{}, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, pod := range pods.Items {
		if !strings.HasPrefix(address, pod.Status.PodIP+":") {
			continue
		}
		a.reads[pod.Name]++
		if a.silent[pod.Name] {
			break
		}
		wanted := pod.Annotations[naming.AnnotationRevision]
		report := agentapi.Report{
			Since: time.Unix(1, 0), Disks: a.disks[pod.Name], PurgeHead: a.purgeHead, Unsafe: a.unsafe,
			Features: []string{agentapi.FeatureRouting, agentapi.FeatureLeaving},
			Renderer: agentapi.Renderer, NginxVersion: agentapi.MinNginx,
		}
		if a.old[pod.Name] {
			report.Renderer = 0
		}
		if sharing, err := fleet.Read(pod.Annotations[naming.AnnotationFleet]); err == nil && !a.deaf[pod.Name] {
			report.FleetSerial = sharing.Serial
		}
		var routes []string
		if a.refusesOf != nil {
			routes = a.refusesOf(wanted)
		}
		if a.refuses[wanted] || len(routes) > 0 {
			report.Refusal = &agentapi.Refusal{
				Revision: wanted, Message: "host not found", Routes: routes,
				Retry: pod.Annotations[v1alpha1.AnnotationRetry],
			}
		} else if a.running[pod.Name] != wanted {
			a.running[pod.Name] = wanted
			a.order = append(a.order, pod.Name)
		}
		report.Revision = a.running[pod.Name]
		return report, nil
	}
	return agentapi.Report{}, errors.New("no answer")
}

func (a *fakeAgents) set(change func()) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	change()
}

// areRead waits until the operator has read each agent two more times. At the second read, the operator already has the
// report of the first read.
func (a *fakeAgents) areRead(t *testing.T) {
	t.Helper()
	before := map[string]int{}
	a.set(func() { maps.Copy(before, a.reads) })
	a.o.eventually(func() string {
		waiting := ""
		a.set(func() {
			for pod, n := range before {
				if a.reads[pod] < n+2 {
					waiting = pod + " is not read"
				}
			}
		})
		return waiting
	})
}

func (a *fakeAgents) taken() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	order := a.order
	a.order = nil
	return order
}

// annotate sets an annotation on a CacheNode as a user would.
func (o *operator) annotate(cacheNode *v1alpha1.CacheNode, key, value string) {
	o.t.Helper()
	o.get(cacheNode)
	before := cacheNode.DeepCopy()
	if cacheNode.Annotations == nil {
		cacheNode.Annotations = map[string]string{}
	}
	cacheNode.Annotations[key] = value
	must(o.t, o.client.Patch(context.Background(), cacheNode, client.MergeFrom(before)))
}

// makePods creates ready pods from the StatefulSet's template, as the StatefulSet controller and the kubelet would.
func (o *operator) makePods(cacheNode *v1alpha1.CacheNode, n int) {
	o.t.Helper()
	set := children(cacheNode)[0].(*appsv1.StatefulSet)
	o.get(set)
	for i := range n {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", cacheNode.Name, i), cacheNode.Namespace
		pod.Labels = naming.Labels(cacheNode.Name)
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "r"
		pod.Annotations = set.Spec.Template.Annotations
		pod.Spec.Containers = []corev1.Container{{Name: "nginx", Image: "nginx"}}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i)
		node := &corev1.Node{}
		node.Name = pod.Spec.NodeName
		must(o.t, client.IgnoreAlreadyExists(o.client.Create(context.Background(), node)))
		must(o.t, o.client.Create(context.Background(), pod))
		o.setStatus(pod, func() {
			ip := fmt.Sprintf("10.0.0.%d", i+1)
			pod.Status = corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			}
		})
	}
}

// replacePods deletes the pods and creates them from the StatefulSet's template.
func (o *operator) replacePods(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	pods := &corev1.PodList{}
	must(o.t, o.client.List(context.Background(), pods,
		client.InNamespace(cacheNode.Namespace), client.MatchingLabels(naming.PodSelector(cacheNode.Name))))
	for i := range pods.Items {
		must(o.t, o.client.Delete(context.Background(), &pods.Items[i], client.GracePeriodSeconds(0)))
	}
	o.makePods(cacheNode, len(pods.Items))
}

// TestRollout follows the rollout of edits to three pods. The test replaces the agents of the pods.
func TestRollout(t *testing.T) {
	t.Parallel()
	whole := t
	a := newAgents()
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) { r.Agents.Calls.Report = a.read })
	ctx := context.Background()
	a.set(func() { a.o = o })
	const three = "replicas: 3\n  rollout: {maxUnavailable: 1}\n  routing: {handover: 0s}"
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", three, 1))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.makePods(cacheNode, 3)
	o.rollOut(cacheNode)
	o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	first := cacheNode.Status.ConfigRevision
	set := children(cacheNode)[0].(*appsv1.StatefulSet)
	o.get(set)
	input := set.Spec.Template.Annotations[naming.AnnotationInput]
	revisions := func() []string {
		o.get(cacheNode)
		var list []string
		for _, p := range cacheNode.Status.Pods {
			list = append(list, p.Revision)
		}
		return list
	}
	allRun := func(revision string) { // the StatefulSet can be ready before the operator has seen the pods
		t.Helper()
		o.eventually(func() string {
			if got := revisions(); !slices.Equal(got, []string{revision, revision, revision}) {
				return fmt.Sprintf("the pods run %v, want %s", got, revision)
			}
			return ""
		})
	}
	allRun(first)

	steps.Run(t, "an edit: one pod first, then the others", func() {
		a.taken()
		threads := int32(5)
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].ThreadPool.Threads = &threads })
		o.eventually(func() string {
			if got := revisions(); len(got) == 3 && got[0] != first && got[0] == got[1] && got[1] == got[2] {
				return ""
			}
			return fmt.Sprint("the pods run ", revisions())
		})
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		if got := a.taken(); !slices.Equal(got, []string{"edge-2", "edge-0", "edge-1"}) {
			t.Errorf("they took it in the order %v", got)
		}
		config := configMap(cacheNode)
		if o.get(config); config.Data[naming.CandidateKey] != "" ||
			!strings.Contains(config.Data[naming.StableKey], cacheNode.Status.ConfigRevision) {
			t.Error("the candidate has not become stable")
		}
	})

	steps.Run(t, "a refusal: only the canary has seen it", func() {
		good := cacheNode.Status.ConfigRevision
		a.taken()
		change := func(s *v1alpha1.CacheNodeSpec) { s.Hosts = []v1alpha1.Hostname{"refused.example.com"} }
		bad := o.revisionOf(cacheNode, change)
		a.set(func() { a.refuses[bad] = true })
		o.edit(cacheNode, change)
		o.becomes(cacheNode, status.FailedStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonConfigRefused)
		r := cacheNode.Status.Refusal
		if r == nil || r.Pod != "edge-2" || r.Message != "host not found" || r.Revision != bad {
			t.Errorf("status.refusal is %+v", r)
		}
		o.settle(cacheNode)
		if got := revisions(); !slices.Equal(got, []string{good, good, good}) {
			t.Errorf("the pods run %v, want %s", got, good)
		}
		if got := a.taken(); len(got) != 0 {
			t.Errorf("%v took something", got)
		}
		o.writesNothing(cacheNode, 5) // the operator does not write the refusal again
	})

	steps.Run(t, "a person asks to try it again", func() {
		a.set(func() { clear(a.refuses) })
		o.annotate(cacheNode, v1alpha1.AnnotationRetry, "1")
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		if cacheNode.Status.Refusal != nil {
			t.Errorf("status.refusal is %+v", cacheNode.Status.Refusal)
		}
	})

	steps.Run(t, "a keys zone of another size needs new pods: none takes it, one is replaced first", func() {
		a.taken()
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Cache.KeysZone = new(resource.MustParse("16Mi")) })
		o.eventually(func() string {
			set := children(cacheNode)[0].(*appsv1.StatefulSet)
			if o.get(set); set.Spec.Template.Annotations[naming.AnnotationInput] != input {
				return ""
			}
			return "the template is that of before"
		})
		o.rollOut(cacheNode)
		o.eventually(func() string { // no controller sets the budget's status here, so it allows nothing
			if o.get(cacheNode); strings.Contains(describe(cacheNode), "edge-0 waits for the disruption budget") {
				return ""
			}
			return "the first pod is not to be replaced: " + describe(cacheNode)
		})
		o.settle(cacheNode)
		if got := a.taken(); len(got) != 0 {
			t.Errorf("%v took it in place", got)
		}
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Cache.KeysZone = nil })
		o.eventually(func() string {
			set := children(cacheNode)[0].(*appsv1.StatefulSet)
			if o.get(set); set.Spec.Template.Annotations[naming.AnnotationInput] == input {
				return ""
			}
			return "the template is not that of before"
		})
		o.rollOut(cacheNode)
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "an edit that needs new pods and is taken back leaves the pod template as it was", func() {
		set := children(cacheNode)[0].(*appsv1.StatefulSet)
		o.get(set)
		if got := set.Spec.Template.Annotations[naming.AnnotationRevision]; got != first {
			t.Errorf("the template has revision %s, want that of the beginning, %s", got, first)
		}
	})

	steps.Run(t, "a restarted operator writes nothing and asks for no other revision", func() {
		o.settle(cacheNode)
		o.stop()
		o.get(cacheNode)
		before := cacheNode.ResourceVersion
		again := o.again(whole, func(r *CacheNodeReconciler) { r.Agents.Calls.Report = a.read })
		again.settle(cacheNode)
		a.areRead(t)
		again.settle(cacheNode)
		_, writes := again.requests.take()
		if o.get(cacheNode); len(writes) != 0 || cacheNode.ResourceVersion != before {
			t.Errorf("it wrote %v", writes)
		}
		*o = *again
	})

	steps.Run(t, "a disk fails and comes back", func() {
		disk := func(state v1alpha1.DiskState, share int) []agentapi.DiskReport {
			var reason v1alpha1.DiskReason
			if state == v1alpha1.DiskFailed {
				reason = v1alpha1.DiskIOError
			}
			return []agentapi.DiskReport{
				{Name: "disk1", State: state, Reason: reason, Share: share},
				{Name: "disk2", State: v1alpha1.DiskHealthy, Share: 10000 - share},
			}
		}
		a.set(func() { a.disks["edge-1"] = disk(v1alpha1.DiskFailed, 0) })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskFailed)
		text := describe(cacheNode)
		if !strings.Contains(text, "edge-1: disk1 is out of use (IOError)") || !strings.Contains(text, "Ready=True") {
			t.Error(text)
		}
		want := []v1alpha1.PodDiskStatus{
			{Name: "disk1", State: "Failed", Reason: "IOError", Share: "0.00%"},
			{Name: "disk2", State: "Healthy", Share: "100.00%"},
		}
		if got := cacheNode.Status.Pods[1].Disks; !slices.Equal(got, want) {
			t.Errorf("status.pods[1].disks is %v, want %v", got, want)
		}
		a.set(func() { a.disks["edge-1"] = disk(v1alpha1.DiskHealthy, 2500) })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonAsExpected)
		o.hasEvents(v1alpha1.ReasonDiskFailed, "DiskHealthy", v1alpha1.ReasonConfigRefused)
	})

	steps.Run(t, "a pod has an agent from before a fix, and then a new one", func() {
		a.set(func() { a.old["edge-1"] = true })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionOutdated, v1alpha1.ReasonSecurityFix)
		text := describe(cacheNode)
		if cacheNode.Status.OutdatedPods != 1 || !strings.Contains(text, "edge-1") || !strings.Contains(text, "Ready=True") {
			t.Errorf("%d pods are outdated: %s", cacheNode.Status.OutdatedPods, text)
		}
		a.set(func() { a.old["edge-1"] = false })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionOutdated, v1alpha1.ReasonAsExpected)
		if cacheNode.Status.OutdatedPods != 0 || cacheNode.Status.Pods[1].NginxVersion != agentapi.MinNginx {
			t.Errorf("the status is %+v", cacheNode.Status)
		}
	})

	steps.Run(t, "a repaired disk: its pod is evicted, once the budget allows it", func() {
		a.set(func() {
			a.disks["edge-1"] = []agentapi.DiskReport{{
				Name: "disk1", State: v1alpha1.DiskFailed, Reason: v1alpha1.DiskShutdown,
				Since: o.clock.Now(), NeedsNewPod: true,
			}}
		})
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskFailed)
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = "edge-1", "default"
		o.get(pod)
		claim := &corev1.PersistentVolumeClaim{}
		claim.Name, claim.Namespace, claim.Labels = "disk1-edge-1", "default", naming.Labels(cacheNode.Name)
		claim.Labels[naming.LabelDisk] = "disk1"
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		must(t, o.client.Create(ctx, claim))
		soon := o.clock.Now().Add(2 * time.Second).Format(time.RFC3339)
		o.annotate(cacheNode, v1alpha1.Readmit.Annotation("edge-1", "disk1"), soon)
		o.eventually(func() string { // no controller sets the budget's status here, so it allows nothing
			if o.get(cacheNode); strings.Contains(describe(cacheNode), "edge-1 waits for the disruption budget") {
				return ""
			}
			return "the eviction does not wait: " + describe(cacheNode)
		})
		budget := children(cacheNode)[3].(*policyv1.PodDisruptionBudget)
		o.get(budget)
		o.setStatus(budget, func() {
			budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = budget.Generation, 1
			budget.Status.CurrentHealthy, budget.Status.DesiredHealthy, budget.Status.ExpectedPods = 3, 2, 3
		})
		o.eventually(func() string {
			err := o.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			if apierrors.IsNotFound(err) || (err == nil && pod.DeletionTimestamp != nil) {
				return ""
			}
			return "it was not evicted"
		})
	})

	steps.Run(t, "an agent that does not answer holds nobody up", func() {
		a.set(func() { a.silent["edge-0"] = true })
		other := o.create(strings.NewReplacer("name: edge,", "name: other,").Replace(edge))
		o.eventually(func() string {
			if o.get(other); other.Status.ObservedGeneration == other.Generation {
				return ""
			}
			return "another CacheNode waits: " + describe(other)
		})
	})
}

// revisionOf returns the ID of the revision that a changed spec will have.
func (o *operator) revisionOf(cacheNode *v1alpha1.CacheNode, change func(*v1alpha1.CacheNodeSpec)) string {
	o.t.Helper()
	o.get(cacheNode)
	changed := cacheNode.DeepCopy()
	change(&changed.Spec)
	cluster := o.reconciler.Cluster
	before := effective.Before{Serving: effective.WithTier, Routing: v1alpha1.RoutingSharded}
	outside := revision.Outside{ClusterDomain: cluster.Domain, Resolvers: cluster.Resolvers}
	n, err := revision.Of(effective.Of(changed, before), outside)
	must(o.t, err)
	return n.ID
}
