package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// cluster returns the State of a CacheNode whose pods are on the first nodes, one pod on each. Each pod has two disks
// on its node. The names of nodes and pods end in a number.
func cluster(pods, nodes int) State {
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: "default"}}
	cacheNode.Spec.Replicas = new(int32(pods))
	cacheNode.Spec.Disruption.NodeLossAfter = "5m"
	cacheNode.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(1))
	cacheNode.Spec.Disks = []v1alpha1.Disk{local("disk1"), local("disk2")}
	s := State{CacheNode: cacheNode, Now: now, Volumes: map[string]*corev1.PersistentVolume{}}
	for i := range nodes {
		s.Nodes = append(s.Nodes, node(i))
	}
	for i := range pods {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: naming.Pod("edge", i), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		}}
		pod.Spec.NodeName = s.Nodes[i].Name
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, d := range cacheNode.Spec.Disks {
			volume := manifest.LocalVolume(cacheNode, d, &s.Nodes[i])
			volume.Status.Phase = corev1.VolumeBound
			claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Name: naming.Claim(d.Name, pod.Name), Namespace: "default", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
				Labels: map[string]string{naming.LabelDisk: d.Name},
			}}
			claim.Spec.VolumeName = volume.Name
			volume.Spec.ClaimRef = &corev1.ObjectReference{Name: claim.Name}
			s.Volumes[volume.Name] = volume
			s.Claims = append(s.Claims, claim)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: d.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}})
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

func local(name string) v1alpha1.Disk {
	return v1alpha1.Disk{Name: name, LocalPath: &v1alpha1.LocalPath{Path: "/mnt/" + name}}
}

func node(i int) corev1.Node {
	h := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("host-%d", i)},
	}}
	h.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return h
}

// stop makes a node and its pods not ready. The node has this state since the duration since before now.
func (s State) stop(i int, since time.Duration) {
	c := &s.Nodes[i].Status.Conditions[0]
	c.Status, c.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(now.Add(-since))
	for p := range s.Pods {
		if s.Pods[p].Spec.NodeName == s.Nodes[i].Name {
			s.Pods[p].Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
}

func releases(list []Release) []string {
	var out []string
	for _, r := range list {
		var claims []string
		for _, c := range r.Claims {
			claims = append(claims, c.Name)
		}
		out = append(out, fmt.Sprintf("%s force=%t evict=%t %s", r.Name, r.Force, r.Evict, strings.Join(claims, ",")))
	}
	return out
}

func TestLostNodesReleaseTheirPods(t *testing.T) {
	tests := map[string]struct {
		pods, nodes int
		change      func(*State)
		want        []string
		waiting     string
		after       time.Duration
	}{
		"nothing is lost": {3, 3, func(*State) {}, nil, "", 0},
		"a node is out, but not for long": {
			3, 4, func(s *State) { s.stop(1, 4*time.Minute) }, nil, "", time.Minute + time.Second,
		},
		"a node is out for long": {
			3, 4, func(s *State) { s.stop(1, 5*time.Minute) },
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"", 0,
		},
		"a person says that it is out": {
			3, 4, func(s *State) { s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} },
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"", 0,
		},
		"it is switched off": {
			3, 4, func(s *State) { s.stop(1, time.Hour); s.CacheNode.Spec.Disruption.NodeLossAfter = "0s" }, nil, "", 0,
		},
		"the Node object is gone": {
			3, 4, func(s *State) { s.Nodes = slices.Delete(s.Nodes, 1, 2) },
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"", 0,
		},
		"the Node object and the pod are gone, and the next one waits for its claims": {
			3, 4, func(s *State) {
				s.Nodes = slices.Delete(s.Nodes, 1, 2)
				s.Pods[1].Spec.NodeName, s.Pods[1].Status.Conditions = "", nil
			},
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"", 0,
		},
		"no more than the budget": {
			5, 9, func(s *State) { s.stop(1, time.Hour); s.stop(3, time.Hour) },
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"edge-3 on lost node node-3 waits for the disruption budget", 5 * time.Second,
		},
		"as many as the budget": {
			5, 9, func(s *State) {
				s.stop(1, time.Hour)
				s.stop(3, time.Hour)
				s.CacheNode.Spec.Disruption.MaxUnavailable = new(intstr.FromString("40%"))
			},
			[]string{
				"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1",
				"edge-3 force=true evict=false disk1-edge-3,disk2-edge-3",
			},
			"", 0,
		},
		"another pod is down already": {
			3, 6, func(s *State) { s.stop(1, time.Hour); s.Pods[0].Status.Conditions = nil },
			nil, "edge-1 on lost node node-1 waits", 5 * time.Second,
		},
		"no disruption is allowed": {
			3, 6, func(s *State) {
				s.stop(1, time.Hour)
				s.CacheNode.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(0))
			}, nil, "edge-1 on lost node node-1 waits", 5 * time.Second,
		},
		"no other node is free": {
			3, 3, func(s *State) { s.stop(1, time.Hour) }, nil,
			"edge-1 waits for node node-1 to come back: no other node is free", time.Minute,
		},
		"no other node is free, but this one is gone": {
			3, 3, func(s *State) { s.Nodes = slices.Delete(s.Nodes, 1, 2) },
			[]string{"edge-1 force=true evict=false disk1-edge-1,disk2-edge-1"},
			"", 0,
		},
		"a node that the pods do not tolerate is not free": {
			3, 4, func(s *State) {
				s.stop(1, time.Hour)
				s.Nodes[3].Spec.Taints = []corev1.Taint{{Key: "control-plane", Effect: corev1.TaintEffectNoSchedule}}
			}, nil, "edge-1 waits for node node-1 to come back", time.Minute,
		},
		"both workers beside three others": {
			2, 5, func(s *State) {
				s.stop(0, time.Hour)
				s.stop(1, time.Hour)
				for i := 2; i < 5; i++ {
					s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "control-plane", Effect: corev1.TaintEffectNoSchedule}}
				}
			}, nil, "2 of 2 nodes are out of service, more than half", time.Minute,
		},
		"more than half of the nodes": {
			3, 3, func(s *State) { s.stop(1, time.Hour); s.stop(2, time.Second) },
			nil, "2 of 3 nodes are out of service, more than half", time.Minute,
		},
		"all nodes are gone": {
			3, 3, func(s *State) { s.Nodes = nil }, nil, "3 of 3 nodes are out of service, more than half", time.Minute,
		},
		"nodes that the pods may not use do not count": {
			1, 3, func(s *State) {
				s.stop(0, time.Hour)
				s.Nodes[0].Labels["cache"], s.CacheNode.Spec.Pod.NodeSelector = "true", map[string]string{"cache": "true"}
			}, nil, "1 of 1 nodes are out of service", time.Minute,
		},
		"a volume that is tied to no node": {
			2, 4, func(s *State) {
				s.stop(1, time.Hour)
				for _, v := range s.Volumes {
					v.Spec.NodeAffinity = nil
				}
			}, []string{"edge-1 force=true evict=false "}, "", 0,
		},
		"claims that are going already": {
			2, 4, func(s *State) {
				s.stop(1, time.Hour)
				for i := range s.Claims {
					s.Claims[i].DeletionTimestamp = new(metav1.NewTime(now))
				}
				s.Pods = s.Pods[:1]
			}, nil, "", 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster(tt.pods, tt.nodes)
			tt.change(&s)
			loss := &plan{State: s}
			loss.loseNodes()
			if diff := cmp.Diff(tt.want, releases(loss.Keep.Releases)); diff != "" {
				t.Errorf("releases (-want +got)\n%s", diff)
			}
			if (tt.waiting == "") != (loss.Waiting == "") ||
				!strings.HasPrefix(loss.Waiting, tt.waiting) || loss.After != tt.after {
				t.Errorf("waiting is %q, after %s; want %q, %s", loss.Waiting, loss.After, tt.waiting, tt.after)
			}
		})
	}
}

func TestSpare(t *testing.T) {
	down := func(p *corev1.Pod) { p.Status.Conditions = nil }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }
	for name, tt := range map[string]struct {
		replicas       int32
		maxUnavailable intstr.IntOrString
		changes        []func(*corev1.Pod) // of three pods that are ready
		want           int
	}{
		"all are ready":            {3, intstr.FromInt32(1), nil, 1},
		"one is not":               {3, intstr.FromInt32(1), []func(*corev1.Pod){down}, 0},
		"one is being deleted":     {3, intstr.FromInt32(1), []func(*corev1.Pod){leaving}, 0},
		"two are not":              {3, intstr.FromInt32(1), []func(*corev1.Pod){down, leaving}, -1},
		"one is yet to be created": {4, intstr.FromInt32(1), nil, 0},
		"one stays for a while":    {2, intstr.FromInt32(1), nil, 1},
		"none may be taken down":   {3, intstr.FromInt32(0), nil, 0},
		"a share of them":          {3, intstr.FromString("50%"), []func(*corev1.Pod){down}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(3, 3)
			s.CacheNode.Spec.Replicas, s.CacheNode.Spec.Disruption.MaxUnavailable = &tt.replicas, &tt.maxUnavailable
			for i, change := range tt.changes {
				change(&s.Pods[i])
			}
			if got := Spare(s.CacheNode, s.Pods); got != tt.want {
				t.Errorf("%d more pods may be taken down, want %d", got, tt.want)
			}
		})
	}
}

// TestLossIsBounded takes random nodes out of service. It checks that the number of released pods never exceeds the
// budget. When more than half of the nodes are out of service, no pod may be released.
func TestLossIsBounded(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		pods := 1 + random.IntN(8)
		s := cluster(pods, pods+random.IntN(8))
		allowed := random.IntN(4)
		s.CacheNode.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(int32(allowed)))
		out := 0
		for i := range s.Nodes {
			if random.IntN(3) == 0 {
				s.stop(i, time.Duration(random.IntN(600))*time.Second)
				out++
			}
		}
		down := 0
		for i := range s.Pods {
			if s.Pods[i].Status.Conditions[0].Status == corev1.ConditionTrue && random.IntN(5) == 0 {
				s.Pods[i].Status.Conditions = nil
				down++
			}
		}
		got := Plan(s).Keep.Releases
		if len(got) > max(allowed-down, 0) {
			t.Errorf("seed %d: %d pods at once, %d are allowed and %d are down already", seed, len(got), allowed, down)
		}
		if 2*out > len(s.Nodes) && len(got) > 0 {
			t.Errorf("seed %d: %d of %d nodes are out, and %d pods are let go of", seed, out, len(s.Nodes), len(got))
		}
	}
}

// TestPodsLeaveNodesThatAreNoLongerAllowed checks that pods leave a node after the spec has not allowed the node for
// the time leaveAfter.
func TestPodsLeaveNodesThatAreNoLongerAllowed(t *testing.T) {
	moved := func(s State) []string {
		s.Since.Displaced = now.Add(-leaveAfter)
		return releases(Plan(s).Follow.Releases)
	}
	s := cluster(2, 3)
	if got := moved(s); len(got) > 0 {
		t.Errorf("%v: no pod is where it may not be", got)
	}
	for _, i := range []int{0, 2} {
		s.Nodes[i].Labels["cache"] = "true"
	}
	s.CacheNode.Spec.Pod.NodeSelector = map[string]string{"cache": "true"}
	want := []string{"edge-1 force=false evict=true disk1-edge-1,disk2-edge-1"}
	if got := moved(s); !cmp.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
	if a := Plan(s); len(a.Follow.Releases) > 0 ||
		a.Since.Displaced != now || a.After == 0 || a.After > leaveAfter+time.Second {
		t.Errorf("at once: %v, since %s, again after %s", releases(a.Follow.Releases), a.Since.Displaced, a.After)
	}
	s.CacheNode.Spec.Disks = nil // without localPath, no volume of the operator ties a pod to a node
	if got := moved(s); len(got) > 0 {
		t.Errorf("%v: nothing of the operator's is on a node", got)
	}
}

// TestReplicasFollowTheNodes checks a CacheNode with one pod on each node. Pods must be added immediately, and removed
// one by one after a delay.
func TestReplicasFollowTheNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes  int
		change func(*State)
		want   int32 // 0: the number does not change
	}{
		"as many":             {3, func(*State) {}, 0},
		"two more":            {5, func(*State) {}, 5},
		"two fewer, for long": {3, func(s *State) { s.drop(1); s.drop(1); s.Since.Fewer = now.Add(-time.Minute) }, 2},
		"two fewer, just now": {3, func(s *State) { s.drop(1); s.drop(1) }, 0},
		"fewer, and a pod goes": {3, func(s *State) {
			s.drop(1)
			s.Since.Fewer = now.Add(-time.Minute)
			s.Pods[0].DeletionTimestamp = new(metav1.NewTime(now))
		}, 0},
		"fewer, and one is lost": {3, func(s *State) {
			s.Nodes = s.Nodes[1:]
			s.Since.Fewer = now.Add(-time.Minute)
			s.Pods[1].Status.Conditions = nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(3, tt.nodes)
			s.CacheNode.Spec.Placement.PerNode = true
			tt.change(&s)
			var got int32
			if replicas := Plan(s).Follow.Replicas; replicas != nil {
				got = *replicas
			}
			if got != tt.want {
				t.Errorf("%d pods, want %d", got, tt.want)
			}
		})
	}
	s := cluster(1, 1)
	s.CacheNode.Spec.Placement.PerNode = true
	s.CacheNode.Spec.Pod.NodeSelector = map[string]string{"cache": "true"}
	if !Plan(s).Follow.NoNode {
		t.Error("no node matches, and the plan does not say so")
	}
}

// drop changes the first node from number i on that still matches the spec, so that it no longer matches. The pod on
// the node still exists.
func (s *State) drop(i int) {
	s.CacheNode.Spec.Pod.NodeSelector = map[string]string{"cache": "true"}
	for n := range s.Nodes {
		if s.Nodes[n].Labels["cache"] == "" {
			s.Nodes[n].Labels["cache"] = "true"
		}
	}
	for n := i; n < len(s.Nodes); n++ {
		if s.Nodes[n].Labels["cache"] == "true" {
			s.Nodes[n].Labels["cache"] = "false"
			return
		}
	}
}

// TestATaintRemovesNoRunningPod checks that a taint with the effect NoSchedule keeps new pods away, but does not remove
// an existing pod.
func TestATaintRemovesNoRunningPod(t *testing.T) {
	s := cluster(1, 2)
	for i := range s.Nodes {
		s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "agent-not-ready", Effect: corev1.TaintEffectNoSchedule}}
	}
	if got := s.tolerated(s.Nodes); len(got) != 1 || got[0].Name != "node-0" {
		t.Errorf("%d nodes are left, want the one with a pod", len(got))
	}
	s.Nodes[0].Spec.Taints[0].Effect = corev1.TaintEffectNoExecute
	if got := s.tolerated(s.Nodes); len(got) != 0 {
		t.Errorf("%d nodes are left, want none", len(got))
	}
}

func TestTolerationsAreThoseOfTheScheduler(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: "v", Effect: effect}
	}
	tests := map[string]struct {
		taint      corev1.Taint
		toleration []corev1.Toleration
		want       bool
	}{
		"cordoned":      {taint("node.kubernetes.io/unschedulable", corev1.TaintEffectNoSchedule), nil, true},
		"unreachable":   {taint("node.kubernetes.io/unreachable", corev1.TaintEffectNoExecute), nil, true},
		"preferred":     {taint("a", corev1.TaintEffectPreferNoSchedule), nil, true},
		"reserved":      {taint("a", corev1.TaintEffectNoSchedule), nil, false},
		"by value":      {taint("a", corev1.TaintEffectNoSchedule), []corev1.Toleration{{Key: "a", Value: "v"}}, true},
		"another value": {taint("a", corev1.TaintEffectNoSchedule), []corev1.Toleration{{Key: "a", Value: "w"}}, false},
		"by key": {
			taint("a", corev1.TaintEffectNoSchedule),
			[]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
			true,
		},
		"another effect": {
			taint("a", corev1.TaintEffectNoSchedule),
			[]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			false,
		},
		"whatever it is": {
			taint("a", corev1.TaintEffectNoExecute), []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, true,
		},
		"an empty one": {taint("a", corev1.TaintEffectNoExecute), []corev1.Toleration{{}}, false},
		"the second of two": {
			taint("a", corev1.TaintEffectNoExecute), []corev1.Toleration{{Key: "b", Value: "v"}, {Key: "a", Value: "v"}}, true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := node(0)
			h.Spec.Taints = []corev1.Taint{tt.taint}
			s := State{CacheNode: &v1alpha1.CacheNode{}}
			s.CacheNode.Spec.Pod.Tolerations = tt.toleration
			if got := len(s.tolerated([]corev1.Node{h})) == 1; got != tt.want {
				t.Errorf("tolerated is %t, want %t", got, tt.want)
			}
		})
	}
}
