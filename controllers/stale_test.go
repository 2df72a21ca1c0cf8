package controllers

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// stale is a cache that goes on showing an old ConfigMap, if it has one.
type stale struct {
	client.Client
	old *atomic.Pointer[corev1.ConfigMap]
}

// Get implements [client.Reader].
func (s stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	configMap, ok := object.(*corev1.ConfigMap)
	if old := s.old.Load(); ok && old != nil && client.ObjectKeyFromObject(old) == key {
		old.DeepCopyInto(configMap)
		return nil
	}
	return s.Client.Get(ctx, key, object, options...)
}

// TestStaleOffer checks that nothing is decided from a ConfigMap that is older than what the operator wrote last. By an
// old one, a disk that leaves has not begun to. If it cannot be read any more, it would then leave at once, and not
// after the other disks have filled from it.
func TestStaleOffer(t *testing.T) {
	t.Parallel()
	var old atomic.Pointer[corev1.ConfigMap]
	a := newAgents()
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Agents.Calls.Report, r.Client = a.read, stale{r.Client, &old}
	})
	a.set(func() { a.o = o })
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 1", 1))
	set, config := &appsv1.StatefulSet{}, configMap(cacheNode)
	set.Name, set.Namespace = cacheNode.Name, cacheNode.Namespace
	o.eventually(func() string {
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err.Error()
		}
		return ""
	})
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
	old.Store(before)
	report(v1alpha1.DiskFailed)
	o.pass(cacheNode)
	if !leaves() {
		t.Error("the disk has left at once")
	}
}
