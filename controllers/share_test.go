package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// TestSharing makes several changes and checks which pods then own keys, according to the ConfigMap and to the
// annotations of the pods. It also checks which pods stay, and that the operator writes nothing while nothing changes.
func TestSharing(t *testing.T) {
	t.Parallel()
	a := newAgents()
	denied := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Agents.Calls.Report, r.Cluster.Policy.DeniedOriginRanges = a.read, denied
	})
	a.set(func() { a.o = o })
	ctx := context.Background()
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 3\n  routing: {mode: Sharded}", 1))
	set, config := &appsv1.StatefulSet{}, configMap(cacheNode)
	set.Name, set.Namespace = cacheNode.Name, cacheNode.Namespace
	o.eventually(func() string {
		return strings.TrimPrefix(fmt.Sprint(o.client.Get(ctx, client.ObjectKeyFromObject(set), set)), "<nil>")
	})
	o.makePods(cacheNode, 3)
	o.rollOut(cacheNode)
	o.get(config)
	policy, err := agentapi.ReadOriginPolicy([]byte(config.Data[naming.OriginPolicyKey]))
	must(t, err)
	if !slices.Equal(policy.DeniedRanges, denied) {
		t.Errorf("agents learn that %v is denied, want %v", policy.DeniedRanges, denied)
	}
	// told waits until the ConfigMap and the annotations of all pods contain these owners of keys.
	told := func(members, away, previous string) {
		t.Helper()
		o.eventually(func() string {
			o.get(config)
			f, err := fleet.Read(config.Data[naming.FleetKey])
			must(t, err)
			if got := fmt.Sprint(f.Members, f.Away, f.Previous.Members); got != members+" "+away+" "+previous {
				return fmt.Sprintf("%s, and members, away and previous are to be %s %s %s", got, members, away, previous)
			}
			pods := &corev1.PodList{}
			must(t, o.client.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels(naming.PodSelector("edge"))))
			for _, pod := range pods.Items {
				if text := pod.Annotations[naming.AnnotationFleet]; text != config.Data[naming.FleetKey] {
					return fmt.Sprintf("the annotation of %s is %s", pod.Name, text)
				}
			}
			return ""
		})
	}
	cordon := func(node string, is bool) {
		t.Helper()
		n := &corev1.Node{}
		n.Name = node
		o.get(n)
		before := n.DeepCopy()
		n.Spec.Taints = nil
		if is {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}
		must(t, o.client.Patch(ctx, n, client.MergeFrom(before)))
	}

	steps.Run(t, "all pods own keys, and have what they show to each other", func() {
		told("[0 1 2]", "[]", "[]")
		secret := &corev1.Secret{}
		secret.Name, secret.Namespace = naming.AgentSecret(cacheNode.Name), cacheNode.Namespace
		o.get(secret)
		for _, key := range []string{naming.PeerCertificateKey, naming.PeerKeyKey, naming.PeerAuthorityKey} {
			if len(secret.Data[key]) == 0 {
				t.Errorf("the Secret has no %s", key)
			}
		}
		o.writesNothing(cacheNode, 5)
	})
	steps.Run(t, "the pod of a cordoned node hands its keys over, and nobody is evicted meanwhile", func() {
		o.evictions(cacheNode, naming.EvictionsNeedCordon)
		a.set(func() { a.deaf["edge-2"] = true })
		a.areRead(t)
		cordon("node-1", true)
		told("[0 1 2]", "[]", "[0 1 2]") // as long as edge-2 does not know this
		o.evictions(cacheNode, naming.EvictionsNeedHandover)
		a.set(func() { a.deaf["edge-2"] = false })
		told("[0 1 2]", "[1]", "[0 1 2]")
		o.evictions(cacheNode, naming.EvictionsNeedHandover)
		cordon("node-1", false)
		told("[0 1 2]", "[]", "[0 1 2]")
		o.evictions(cacheNode, naming.EvictionsNeedCordon)
	})
	steps.Run(t, "a pod that is scaled away stays while it hands its keys over", func() {
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Replicas = new(int32(2)) })
		told("[0 1]", "[]", "[0 1 2]")
		o.settle(cacheNode)
		if o.get(set); *set.Spec.Replicas != 3 {
			t.Errorf("the StatefulSet has %d replicas", *set.Spec.Replicas)
		}
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Routing.Handover = "0s" })
		o.evictions(cacheNode, "")
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Replicas = new(int32(1)) })
		told("[0]", "[]", "[]")
		o.eventually(func() string {
			if o.get(set); *set.Spec.Replicas != 1 {
				return fmt.Sprintf("the StatefulSet has %d replicas", *set.Spec.Replicas)
			}
			return ""
		})
	})
	steps.Run(t, "an edit of the disks says which disks had the keys", func() {
		had := len(cacheNode.Spec.Disks)
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
			s.Routing.Handover = "10m"
			s.Disks[0].Weight = new(int32(100))
			for i := range s.Disks[1:] {
				s.Disks[1+i].Weight = new(int32(50))
			}
		})
		o.eventually(func() string {
			o.get(config)
			f, err := fleet.Read(config.Data[naming.FleetKey])
			must(t, err)
			if len(f.Disks.Members) != had || f.Disks.Members[0].Weight == 100 || f.Disks.Until.IsZero() {
				return fmt.Sprintf("the ConfigMap says %+v", f.Disks)
			}
			return ""
		})
	})
	steps.Run(t, "with mode Local nobody shares keys", func() {
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Routing = v1alpha1.Routing{Mode: v1alpha1.RoutingLocal} })
		told("[]", "[]", "[]")
	})
	steps.Run(t, "a disk that is removed stays in the pods until the others have filled from it", func() {
		leaves := func() bool {
			o.get(config)
			return strings.Contains(config.Data[naming.StableKey]+config.Data[naming.CandidateKey], `"weight":0`)
		}
		o.get(set)
		claims := len(set.Spec.VolumeClaimTemplates)
		a.set(func() {
			a.disks["edge-0"] = []agentapi.DiskReport{{Name: "disk2", State: v1alpha1.DiskHealthy, Since: o.clock.Now()}}
		})
		a.areRead(t)
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks = s.Disks[:1] })
		o.eventually(func() string {
			o.get(cacheNode)
			if leaves() && strings.Contains(strings.Join(cacheNode.Status.Tuning, "\n"), "disks: disk2 stays until") {
				return ""
			}
			return fmt.Sprintf("status.tuning is %q; the revision has the disk without a weight: %t",
				cacheNode.Status.Tuning, leaves())
		})
		o.settle(cacheNode)
		if o.get(set); len(set.Spec.VolumeClaimTemplates) != claims {
			t.Errorf("the pods are to have %d disks already", len(set.Spec.VolumeClaimTemplates))
		}
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Routing.Handover = "0s" })
		o.eventually(func() string {
			if o.get(set); set.DeletionTimestamp.IsZero() || leaves() { // it is recreated with other claims
				return fmt.Sprintf("the pods are to have %d disks", len(set.Spec.VolumeClaimTemplates))
			}
			return ""
		})
	})
}
