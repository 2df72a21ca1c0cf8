package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/plan"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// randomEdits are edits, some of which replace pods, some reload nginx, and some do neither.
var randomEdits = map[string]func(*rand.Rand, *v1alpha1.CacheNodeSpec){
	"threads": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Disks[0].ThreadPool.Threads = new(16 + r.Int32N(64))
	},
	"memory tier": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) { s.MemoryTier.Enabled = new(r.IntN(2) == 0) },
	"memory tier's size": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.MemoryTier.Size = resource.NewQuantity(int64(32+r.IntN(3)*16)<<20, resource.BinarySI)
	},
	"memory limit": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Pod.Resources.Limits = corev1.ResourceList{
			corev1.ResourceMemory: *resource.NewQuantity(int64(1+r.IntN(4))<<30, resource.BinarySI),
		}
	},
	"key": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Cache.Key = [][]v1alpha1.KeyPart{{v1alpha1.KeyURI, "Args", "Host"}, {"RequestURI", "Host"}}[r.IntN(2)]
	},
	"weights": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Disks[0].Weight, s.Disks[1].Weight = new(1+r.Int32N(3)), new(int32(1))
	},
	"media": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Disks[0].Media = []v1alpha1.Media{v1alpha1.HDD, v1alpha1.SSD, v1alpha1.NVMe}[r.IntN(3)]
	},
	"port": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) { s.Listen.Port = new(9000 + r.Int32N(2)) },
	"service": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Service.Annotations = map[string]string{"example.com/a": fmt.Sprint(r.IntN(3))}
	},
	"canary": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) { s.Rollout.Canary.Seconds = new(r.Int32N(3)) },
	"I/O mode": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.IO.Mode = []v1alpha1.IOMode{v1alpha1.IOAuto, v1alpha1.IODirect, v1alpha1.IOThreads}[r.IntN(3)]
	},
	"a label": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Pod.Labels = map[string]string{"example.com/a": fmt.Sprint(r.IntN(2))}
	},
}

// made is what the operator has made of the spec: what pods are created from, and what they are offered.
type made struct{ template, offered string }

func (o *operator) made(cacheNode *v1alpha1.CacheNode) made {
	o.t.Helper()
	set, configMap := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
	set.Namespace, set.Name = cacheNode.Namespace, cacheNode.Name
	configMap.Namespace, configMap.Name = cacheNode.Namespace, naming.ConfigMap(cacheNode.Name)
	o.eventually(func() string { // the operator recreates a StatefulSet for other claim templates
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err.Error()
		}
		return ""
	})
	o.get(configMap)
	return made{
		template: set.Spec.Template.Annotations[naming.AnnotationInput],
		offered:  configMap.Data[naming.StableKey] + configMap.Data[naming.CandidateKey],
	}
}

// TestPlanForetellsWhatTheOperatorDoes compares, for random edits, the output of kubectl cachenode plan with what the
// operator then does.
func TestPlanForetellsWhatTheOperatorDoes(t *testing.T) {
	t.Parallel()
	restConfig := apiserver.Start(t)
	o := startOperator(t, restConfig)
	typed, err := kubernetes.NewForConfig(restConfig)
	must(t, err)
	cluster := &connect.Cluster{Client: o.client, Kubernetes: typed, Config: restConfig, Namespace: "default"}
	cacheNode := o.create(edge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.settle(cacheNode)
	seen := map[string]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		o.get(cacheNode)
		next := cacheNode.DeepCopy()
		var edits []string
		for name, edit := range randomEdits {
			if random.IntN(6) == 0 {
				edit(random, &next.Spec)
				edits = append(edits, name)
			}
		}
		var said, warnings strings.Builder
		must(t, plan.Run(context.Background(), cluster, next.DeepCopy(), &said, &warnings))
		before := o.made(cacheNode)
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { *s = next.Spec })
		o.eventually(func() string {
			if o.get(cacheNode); cacheNode.Status.ObservedGeneration == cacheNode.Generation {
				return ""
			}
			return "the edit is not seen: " + describe(cacheNode)
		})
		o.settle(cacheNode)
		after := o.made(cacheNode)
		want := "nginx goes on as it is"
		switch {
		case before.template != after.template:
			want = " replaced; the disks that stay are warm"
			if !strings.Contains(said.String(), want) {
				want = " replaced, one after another"
			}
		case before.offered != after.offered:
			want = "nginx reloads in each"
		}
		seen[want]++
		if !strings.Contains(said.String(), want) {
			t.Errorf("seed %d, edits of %v: plan said\n%sand it was %q", seed, edits, said.String(), want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("the edits had only the outcomes %v", seen)
	}
}
