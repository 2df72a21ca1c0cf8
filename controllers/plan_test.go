package controllers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/plan"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// randomEdits are edits of a spec. Some of them replace pods, some reload nginx, and some do neither.
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
		for i := range s.Disks { // all disks have a weight, or none has
			s.Disks[i].Weight = new(1 + r.Int32N(3))
		}
	},
	"a disk more or less": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		if len(s.Disks) > 2 {
			s.Disks = s.Disks[:2]
			return
		}
		added := *s.Disks[0].DeepCopy()
		added.Name = []string{"disk3", "disk4"}[r.IntN(2)]
		s.Disks = append(s.Disks, added)
	},
	"replicas": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) { s.Replicas = new(1 + r.Int32N(4)) },
	"limit of key movement": func(r *rand.Rand, s *v1alpha1.CacheNodeSpec) {
		s.Rollout.MaxKeyMovement = new(r.Int32N(30))
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

// made contains what the operator has derived from the spec: the pod template, the number of pods, the claims of each
// pod, the revision that the pods run, and the revision that they should run. In this test, no pod exists, so the
// running revision stays the same until the ConfigMap is deleted.
type made struct {
	template        string
	replicas        int32
	claims          []string
	running, wanted agentapi.Revision
}

func (o *operator) made(cacheNode *v1alpha1.CacheNode) made {
	o.t.Helper()
	set, configMap := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
	set.Namespace, set.Name = cacheNode.Namespace, cacheNode.Name
	configMap.Namespace, configMap.Name = cacheNode.Namespace, naming.ConfigMap(cacheNode.Name)
	o.get(set)
	o.get(configMap)
	m := made{template: set.Spec.Template.Annotations[naming.AnnotationInput], replicas: *set.Spec.Replicas}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		m.claims = append(m.claims, claim.Name)
	}
	var err error
	m.running, err = agentapi.ReadRevision([]byte(configMap.Data[naming.StableKey]))
	must(o.t, err)
	m.wanted = m.running
	if candidate := configMap.Data[naming.CandidateKey]; candidate != "" {
		m.wanted, err = agentapi.ReadRevision([]byte(candidate))
		must(o.t, err)
	}
	return m
}

// result returns the texts that the output of plan must contain for an edit, and a name for the kind of edit. The
// parameters describe what the operator had made before and after the edit.
func result(before, after made) (kind string, want []string) {
	kind, want = "nginx goes on", []string{"nginx goes on as it is"}
	ownersChange := before.replicas != after.replicas && after.wanted.Spec.Routing.Mode == v1alpha1.RoutingSharded
	switch {
	case before.template != after.template:
		kind, want = "pods are replaced", []string{" replaced"}
	case before.running.ID != after.wanted.ID, ownersChange:
		kind, want = "nginx reloads", []string{"nginx reloads in each"}
	}
	if before.replicas < after.replicas {
		want = append(want, " created")
	} else if before.replicas > after.replicas {
		want = append(want, " removed")
	}
	m := edit.Movement(before.running, after.wanted)
	isCold := !slices.Equal(before.running.Spec.Cache.Key, after.wanted.Spec.Cache.Key)
	if m.Slots > 0 {
		want = append(want, "Keys: "+shard.Percent(m.Slots)+" of them move")
	}
	if isCold {
		want = append(want, "Keys: all change, by spec.cache.key")
	}
	if m.Slots == 0 && !isCold {
		want = append(want, "Keys: none moves")
	}
	for _, claim := range after.claims {
		if !slices.Contains(before.claims, claim) {
			want = append(want, "for "+claim+" is created for each pod")
		}
	}
	for _, claim := range before.claims {
		if !slices.Contains(after.claims, claim) {
			want = append(want, "Claims: those for "+claim+" are deleted")
		}
	}
	return kind, want
}

// TestPlanForetellsWhatTheOperatorDoes makes random edits. It compares the output of kubectl cachenode plan for each
// edit with what the operator does after the edit.
func TestPlanForetellsWhatTheOperatorDoes(t *testing.T) {
	t.Parallel()
	restConfig := apiserver.Shared(t)
	o := startOperator(t, restConfig)
	typed, err := kubernetes.NewForConfig(restConfig)
	must(t, err)
	cluster := &connect.Cluster{Client: o.client, Kubernetes: typed, Config: restConfig, Namespace: "default"}
	cacheNode := o.create(edge)
	o.processes(cacheNode)
	seen := map[string]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		if random.IntN(3) == 0 && !o.holds(cacheNode) {
			must(t, o.client.Delete(context.Background(), configMap(cacheNode)))
			o.eventually(func() string {
				if m := configMap(cacheNode); o.client.Get(context.Background(), client.ObjectKeyFromObject(m), m) != nil {
					return "the ConfigMap is not recreated"
				}
				return ""
			})
			o.settle(cacheNode)
		}
		o.get(cacheNode)
		next := cacheNode.DeepCopy()
		var edits []string
		for _, name := range slices.Sorted(maps.Keys(randomEdits)) {
			if random.IntN(6) == 0 {
				randomEdits[name](random, &next.Spec)
				edits = append(edits, name)
			}
		}
		var said, warnings strings.Builder
		must(t, plan.Run(context.Background(), cluster, next.DeepCopy(), &said, &warnings))
		before := o.made(cacheNode)
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { *s = next.Spec })
		o.processes(cacheNode)
		kind, want := "", []string(nil)
		if m := cacheNode.Status.KeyMovement; o.holds(cacheNode) {
			kind, want = "held", []string{"it waits for the annotation", m.Name}
			if random.IntN(2) == 0 { // otherwise, the next edit comes while this edit still waits
				o.annotate(cacheNode, v1alpha1.AnnotationAcknowledged, m.Name)
				o.eventually(func() string {
					if o.holds(cacheNode) {
						return "the movement is held though it was acknowledged"
					}
					return ""
				})
				o.isRecreated(cacheNode)
			}
		}
		if !o.holds(cacheNode) {
			done, also := result(before, o.made(cacheNode))
			kind, want = strings.TrimSpace(kind+" "+done), append(want, also...)
		}
		seen[kind]++
		for _, text := range want {
			if !strings.Contains(said.String(), text) {
				t.Errorf("seed %d, edits of %v (%s): plan does not say %q:\n%s", seed, edits, kind, text, said.String())
			}
		}
	}
	t.Log(seen)
	for _, kind := range []string{
		"pods are replaced", "nginx reloads", "nginx goes on", "held", "held pods are replaced",
	} {
		if seen[kind] == 0 {
			t.Errorf("no edit had the outcome %q", kind)
		}
	}
}

// processes waits until the operator has processed the current spec and has nothing more to do.
func (o *operator) processes(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	o.eventually(func() string {
		if o.get(cacheNode); cacheNode.Status.ObservedGeneration == cacheNode.Generation {
			return ""
		}
		return "the edit is not processed: " + describe(cacheNode)
	})
	o.isRecreated(cacheNode)
}

// isRecreated waits until the operator has nothing to do. If the operator recreates the StatefulSet with other claim
// templates, isRecreated acts as the garbage collector.
func (o *operator) isRecreated(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	o.eventually(func() string {
		o.settle(cacheNode)
		set := &appsv1.StatefulSet{}
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(cacheNode), set); err != nil {
			return err.Error()
		}
		if set.DeletionTimestamp == nil {
			return ""
		}
		o.goes(set)
		return "the StatefulSet is being deleted"
	})
}

// holds reports whether the operator holds back a key movement until the annotation acknowledges it.
func (o *operator) holds(cacheNode *v1alpha1.CacheNode) bool {
	o.t.Helper()
	o.get(cacheNode)
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionProgressing)
	return c != nil && c.Reason == v1alpha1.ReasonKeyMovement
}
