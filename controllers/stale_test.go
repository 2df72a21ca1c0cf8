package controllers

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// stale is a client whose cache shows an old ConfigMap and old pods, if past contains them.
type stale struct {
	client.Client
	*past
}

// past contains the old objects that a stale cache shows. If a field is nil, the cache shows the current objects.
type past struct {
	configMap atomic.Pointer[corev1.ConfigMap]
	pods      atomic.Pointer[corev1.PodList]
}

// List implements [client.Reader].
func (s stale) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if old := s.pods.Load(); ok && old != nil {
		old.DeepCopyInto(pods)
		return nil
	}
	return s.Client.List(ctx, list, options...)
}

// Get implements [client.Reader].
func (s stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	configMap, ok := object.(*corev1.ConfigMap)
	if old := s.configMap.Load(); ok && old != nil && client.ObjectKeyFromObject(old) == key {
		old.DeepCopyInto(configMap)
		return nil
	}
	return s.Client.Get(ctx, key, object, options...)
}

// TestStaleOffer checks that the operator decides nothing from a ConfigMap that is older than its own last write. In
// this test, the old ConfigMap does not contain the leaving disk yet, and the disk has failed meanwhile. From the old
// ConfigMap, the operator would conclude that the disk must leave at once, without a hand-over to the other disks.
func TestStaleOffer(t *testing.T) {
	t.Parallel()
	a, shown := newAgents(), &past{}
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Agents.Calls.Report, r.Client = a.read, stale{r.Client, shown}
	})
	a.set(func() { a.o = o })
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 1", 1))
	config := configMap(cacheNode)
	o.eventually(func() string { return o.hasSet(cacheNode) })
	o.makePods(cacheNode, 1)
	o.rollOut(cacheNode)
	report := func(state v1alpha1.DiskState) {
		a.set(func() {
			a.disks["edge-0"] = []agentapi.DiskReport{{Name: "disk2", State: state, Since: o.clock.Now()}}
		})
		a.areRead(t)
	}
	report(v1alpha1.DiskHealthy)
	o.settle(cacheNode)
	o.get(config)
	before := config.DeepCopy()
	leaves := func() bool {
		o.get(config)
		return strings.Contains(config.Data[naming.StableKey]+config.Data[naming.CandidateKey], `"weight":0`)
	}
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks = s.Disks[:1] })
	o.eventually(func() string {
		if !leaves() {
			return "the disk does not leave"
		}
		return ""
	})
	shown.configMap.Store(before)
	report(v1alpha1.DiskFailed)
	o.pass(cacheNode)
	if !leaves() {
		t.Error("the disk has left at once")
	}
}

// hasSet returns "" if a CacheNode has its StatefulSet.
func (o *operator) hasSet(cacheNode *v1alpha1.CacheNode) string {
	err := o.client.Get(context.Background(), client.ObjectKeyFromObject(cacheNode), &appsv1.StatefulSet{})
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestStalePods checks what a pass decides if it has to read the pods from the API server. In the cache, the pod has
// not started; on the API server, it is ready. The pod's agent does not support leaving disks, and the pass must notice
// this.
func TestStalePods(t *testing.T) {
	t.Parallel()
	a, shown := newAgents(), &past{}
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Client = stale{r.Client, shown}
		r.Agents.Calls.Report = func(ctx context.Context, c *agentclient.Client, at string) (agentapi.Report, error) {
			report, err := a.read(ctx, c, at)
			report.Features = []string{agentapi.FeatureRouting}
			return report, err
		}
	})
	a.set(func() { a.o = o })
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 1", 1))
	o.eventually(func() string { return o.hasSet(cacheNode) })
	o.makePods(cacheNode, 1)
	o.rollOut(cacheNode)
	o.settle(cacheNode)
	started := &corev1.PodList{}
	must(t, o.client.List(context.Background(), started, client.InNamespace(cacheNode.Namespace)))
	for i := range started.Items {
		started.Items[i].Status.Conditions, started.Items[i].ResourceVersion = nil, "1"
		started.Items[i].Spec.NodeName = "node-1"
	}
	shown.pods.Store(started)
	o.clock.Step(time.Hour)
	o.get(cacheNode)
	cacheNode.Spec.Disks = cacheNode.Spec.Disks[:1]
	got, err := o.reconciler.observe(context.Background(), scope{cacheNode: cacheNode, now: o.clock.Now()}, &outcome{})
	must(t, err)
	if areSame(got.pods, storage.CachePods(started.Items)) {
		t.Fatal("the pass does not read the API server's pods: nothing is shown")
	}
	seen := got.agents.byPod["edge-0"]
	_, without := got.mayLeave("disk2")
	if diff := cmp.Diff(without, got.leaving.oldAgents); diff != "" || len(without) == 0 && !seen.Answered.IsZero() {
		t.Errorf("pods whose agents know no disks that leave (-want +got):\n%s", diff)
	}
}
