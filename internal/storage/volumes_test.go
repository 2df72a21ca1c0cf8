package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func live(s State) []corev1.PersistentVolume {
	var list []corev1.PersistentVolume
	for _, v := range s.Volumes {
		list = append(list, *v)
	}
	return list
}

// places returns the node and the path of each volume, sorted.
func places(volumes []*corev1.PersistentVolume) []string {
	var list []string
	for _, v := range volumes {
		list = append(list, v.Annotations[naming.AnnotationNode]+" "+v.Annotations[naming.AnnotationPath])
	}
	slices.Sort(list)
	return list
}

// move gives a volume another path.
func move(v *corev1.PersistentVolume, path string) {
	v.Annotations[naming.AnnotationPath], v.Spec.Local.Path = path, path
	v.Name = naming.Volume(v.Annotations[naming.AnnotationNode], path)
}

// existing returns the nodes and paths of the disks' volumes that exist after a plan has been carried out.
func existing(s State, a Actions) []string {
	list := slices.Clone(a.Follow.Create)
	for _, v := range s.Volumes {
		if v.Labels[naming.LabelRole] == naming.RoleDisk && !slices.Contains(a.Follow.Delete, v) {
			list = append(list, v)
		}
	}
	return places(list)
}

func TestOneVolumeForEachDiskAndNode(t *testing.T) {
	all := []string{"node-0 /mnt/disk1", "node-0 /mnt/disk2", "node-1 /mnt/disk1", "node-1 /mnt/disk2"}
	on := func(s *State, place string) *corev1.PersistentVolume {
		for _, v := range s.Volumes {
			if v.Annotations[naming.AnnotationNode]+" "+v.Annotations[naming.AnnotationPath] == place {
				return v
			}
		}
		panic(place)
	}
	free := func(v *corev1.PersistentVolume) { v.Status.Phase, v.Spec.ClaimRef = corev1.VolumeAvailable, nil }
	placeholder := func(s *State) *corev1.PersistentVolume {
		v := manifest.Placeholder(s.CacheNode, &s.Claims[1], "disk2", &s.Nodes[0])
		s.Volumes[v.Name] = v
		return v
	}
	tests := map[string]struct {
		change                  func(*State)
		want, offer, del, taken []string
	}{
		"all are there": {change: func(*State) {}, want: all},
		"a node joins that no pod needs": {
			change: func(s *State) { s.Nodes = append(s.Nodes, node(2)) },
			want:   all,
		},
		"a node joins, and a pod needs it": {
			change: func(s *State) { s.Nodes = append(s.Nodes, node(2)); s.CacheNode.Spec.Replicas = new(int32(3)) },
			want:   append(slices.Clone(all), "node-2 /mnt/disk1", "node-2 /mnt/disk2"),
		},
		"a node joins, and each has one": {
			change: func(s *State) { s.Nodes = append(s.Nodes, node(2)); s.CacheNode.Spec.Placement.PerNode = true },
			want:   append(slices.Clone(all), "node-2 /mnt/disk1", "node-2 /mnt/disk2"),
		},
		"a node leaves: what is held stays until it is let go of": {
			change: func(s *State) { s.Nodes = s.Nodes[:1]; free(on(s, "node-1 /mnt/disk2")) },
			want:   all[:3], del: []string{"node-1 /mnt/disk2"},
		},
		"a claim is gone": {
			change: func(s *State) { on(s, "node-0 /mnt/disk1").Status.Phase = corev1.VolumeReleased },
			want:   all, offer: []string{"node-0 /mnt/disk1"},
		},
		"a disk is removed and its claim gone": {
			change: func(s *State) {
				s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1]
				on(s, "node-0 /mnt/disk2").Status.Phase = corev1.VolumeReleased
			},
			want: []string{all[0], all[2], all[3]}, del: []string{"node-0 /mnt/disk2"},
		},
		"a path belongs to another CacheNode": {
			change: func(s *State) { on(s, "node-1 /mnt/disk1").Labels[naming.LabelInstance] = "other" },
			want:   []string{all[0], all[1], all[3]},
			taken:  []string{"spec.disks[0].localPath.path: /mnt/disk1 on node node-1 belongs to CacheNode default/other"},
		},
		"a path belongs to one of that name in another namespace": {
			change: func(s *State) { on(s, "node-1 /mnt/disk2").Labels[naming.LabelNamespace] = "other" },
			want:   all[:3],
			taken:  []string{"spec.disks[1].localPath.path: /mnt/disk2 on node node-1 belongs to CacheNode other/edge"},
		},
		"a path lies in another CacheNode's": {
			change: func(s *State) {
				v := on(s, "node-1 /mnt/disk1")
				v.Labels[naming.LabelInstance] = "other"
				move(v, "/mnt/disk1/deep")
			},
			want:  []string{all[0], all[1], all[3]},
			taken: []string{"spec.disks[0].localPath.path: /mnt/disk1 on node node-1 belongs to CacheNode default/other"},
		},
		"a path only begins like another CacheNode's": {
			change: func(s *State) {
				v := on(s, "node-1 /mnt/disk1")
				v.Labels[naming.LabelInstance] = "other"
				move(v, "/mnt/disk10")
			},
			want: all,
		},
		"a path lies in the volume of a disk that was removed": {
			change: func(s *State) {
				s.CacheNode.Spec.Disks[1].LocalPath.Path = "/mnt/disk1/evil"
				s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[1:]
				move(on(s, "node-0 /mnt/disk2"), "/mnt/disk3")
				move(on(s, "node-1 /mnt/disk2"), "/mnt/disk3")
			},
			want: []string{"node-0 /mnt/disk1", "node-0 /mnt/disk3", "node-1 /mnt/disk1", "node-1 /mnt/disk3"},
			taken: []string{
				"spec.disks[0].localPath.path: /mnt/disk1/evil on node node-0 overlaps with /mnt/disk1, " +
					"the volume of this CacheNode's disk disk1",
				"spec.disks[0].localPath.path: /mnt/disk1/evil on node node-1 overlaps with /mnt/disk1, " +
					"the volume of this CacheNode's disk disk1",
			},
		},
		"a path belongs to a volume that the operator has not made": {
			change: func(s *State) {
				v := on(s, "node-1 /mnt/disk1")
				v.Name, v.Labels = "database", nil
			},
			want:  []string{all[0], all[1], all[3]},
			taken: []string{"spec.disks[0].localPath.path: /mnt/disk1 on node node-1 belongs to PersistentVolume database"},
		},
		"a stranger's hostPath volume of no certain node lies around all": {
			change: func(s *State) {
				v := on(s, "node-1 /mnt/disk1")
				v.Name, v.Labels, v.Spec.NodeAffinity = "everything", nil, nil
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt/"}}
				s.Nodes, s.CacheNode.Spec.Disks = s.Nodes[:1], s.CacheNode.Spec.Disks[:1]
			},
			want:  []string{all[0], all[1], all[3]},
			taken: []string{"spec.disks[0].localPath.path: /mnt/disk1 on node node-0 belongs to PersistentVolume everything"},
		},
		"a placeholder waits for a claim of a disk that was removed": {
			change: func(s *State) {
				placeholder(s)
				s.Claims = s.Claims[:1]
				s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1]
			}, want: all, del: []string{"node-0 "},
		},
		"a placeholder waits for its claim": {
			change: func(s *State) { placeholder(s); s.Claims[1].DeletionTimestamp = new(metav1.NewTime(now)) }, want: all,
		},
		"a placeholder's claim has the real volume": {
			change: func(s *State) { placeholder(s) }, want: all, del: []string{"node-0 "},
		},
		"a placeholder is in use": {
			change: func(s *State) {
				v := placeholder(s)
				v.Status.Phase, s.Claims[1].Spec.VolumeName = corev1.VolumeBound, v.Name
			}, want: all,
		},
		"a placeholder is released": {
			change: func(s *State) { placeholder(s).Status.Phase = corev1.VolumeReleased }, want: all, del: []string{"node-0 "},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster(2, 2)
			tt.change(&s)
			s.All = live(s)
			for name, v := range s.Volumes { // volumes of other CacheNodes are only on the API server
				if v.Labels[naming.LabelInstance] != "edge" || v.Labels[naming.LabelNamespace] != "default" {
					delete(s.Volumes, name)
				}
			}
			p := Plan(s)
			wanted := existing(s, p)
			for what, diff := range map[string]string{
				"wanted": cmp.Diff(tt.want, wanted), "offered": cmp.Diff(tt.offer, places(p.Keep.Offer)),
				"deleted": cmp.Diff(tt.del, places(p.Follow.Delete)), "taken": cmp.Diff(tt.taken, p.Follow.Taken),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got)\n%s", what, diff)
				}
			}
		})
	}
}

// TestVolumesOfADeletedCacheNodeGoAfterTheirClaims checks that the volumes of a deleted CacheNode are deleted after
// their claims.
func TestVolumesOfADeletedCacheNodeGoAfterTheirClaims(t *testing.T) {
	s := cluster(1, 1)
	s.CacheNode = &v1alpha1.CacheNode{ObjectMeta: s.CacheNode.ObjectMeta}
	s.Nodes, s.Pods, s.Claims = nil, nil, nil
	if a := Plan(s); len(a.Follow.Delete)+len(a.Keep.Offer)+len(a.Follow.Create) > 0 {
		t.Errorf("claims hold them, and the plan is %+v", a)
	}
	for _, v := range s.Volumes {
		v.Status.Phase = corev1.VolumeReleased
	}
	if a := Plan(s); len(a.Follow.Delete) != 2 {
		t.Errorf("%d volumes are deleted, want 2", len(a.Follow.Delete))
	}
}

func TestClaimsAreDeletedWithTheirDisksAndPods(t *testing.T) {
	tests := map[string]struct {
		change func(*State)
		want   []string
	}{
		"all are needed": {func(*State) {}, nil},
		"a disk was removed, and the pod still has it": {
			func(s *State) { s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1] }, nil,
		},
		"a disk was removed, and one pod does without": {
			func(s *State) {
				s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1]
				s.Pods[0].Spec.Volumes = s.Pods[0].Spec.Volumes[:1]
			}, []string{"disk2-edge-0"},
		},
		"a disk was removed, and the pod is about to be made": {
			func(s *State) { s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1]; s.Pods = s.Pods[:1] }, nil,
		},
		"a pod was scaled away, and its claims stay": {
			func(s *State) { s.CacheNode.Spec.Replicas, s.Pods = new(int32(1)), s.Pods[:1] }, nil,
		},
		"a pod was scaled away, and its claims go": {
			func(s *State) {
				s.CacheNode.Spec.Replicas, s.Pods = new(int32(1)), s.Pods[:1]
				s.CacheNode.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = v1alpha1.DeleteClaims
			}, []string{"disk1-edge-1", "disk2-edge-1"},
		},
		"a pod's node has left, with one pod a node": {
			func(s *State) {
				s.CacheNode.Spec.Replicas, s.Pods = new(int32(1)), s.Pods[:1]
				s.CacheNode.Spec.Placement.PerNode = true
			}, []string{"disk1-edge-1", "disk2-edge-1"},
		},
		"a pod is being scaled away": {
			func(s *State) { s.CacheNode.Spec.Replicas, s.CacheNode.Spec.Placement.PerNode = new(int32(1)), true }, nil,
		},
		"a scout's claim": {
			func(s *State) {
				s.Claims[0].Name = naming.Scout("disk1", "edge-7")
				s.Claims[0].Labels = naming.ScoutLabels("edge")
			}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster(2, 2)
			tt.change(&s)
			var got []string
			for _, c := range Plan(s).Follow.Unwanted {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestClaimsGrowWhereTheClassAllowsIt(t *testing.T) {
	s := cluster(1, 1)
	for i, size := range []string{"1Gi", "3Gi"} {
		s.Claims[i].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		s.CacheNode.Spec.Disks[i].Size = resource.MustParse("2Gi")
	}
	s.Classes = map[string]*storagev1.StorageClass{"grows": {AllowVolumeExpansion: new(true)}}
	for i := range s.Claims {
		s.Claims[i].Spec.StorageClassName, s.Claims[i].Status.Phase = new("grows"), corev1.ClaimBound
	}
	got := Plan(s).Follow.Grow
	if len(got) != 1 || got[0].Claim.Name != "disk1-edge-0" || got[0].Size.String() != "2Gi" {
		t.Errorf("%+v grow, want disk1's to 2Gi: a claim never shrinks", got)
	}
}

func TestReadVerbs(t *testing.T) {
	s := cluster(2, 2)
	s.CacheNode.Annotations = map[string]string{
		"drain.cachenode.io/edge-1.disk2":   "",
		"drain.cachenode.io/edge-1.disk1":   "because",
		"readmit.cachenode.io/edge-0.disk1": "2026-11-21T11:00:00Z",
		"replace.cachenode.io/edge-0.disk2": "soon",
		"drain.cachenode.io/edge-1.disk7":   "",
		"drain.cachenode.io/stranger.disk1": "",
		"drain.cachenode.io/edge-01.disk1":  "",
		"cachenode.io/retry":                "1",
		"replace.example.com/edge-0.disk1":  "2026-11-21T11:00:00Z",
	}
	v := ReadVerbs(s.CacheNode)
	if diff := cmp.Diff(map[string][]string{"edge-1": {"disk1", "disk2"}}, v.Drained); diff != "" {
		t.Errorf("drained (-want +got)\n%s", diff)
	}
	if got := v.Readmit[PodDisk{"edge-0", "disk1"}]; got.Hour() != 11 || len(v.Readmit) != 1 || len(v.Replace) != 0 {
		t.Errorf("readmit is %v, replace %v", v.Readmit, v.Replace)
	}
	text := strings.Join(v.Problems, "\n")
	if len(v.Problems) != 4 || !strings.Contains(text, `"soon" is no time`) ||
		!strings.Contains(text, "edge-1.disk7 names no disk") {
		t.Errorf("the problems are %q", v.Problems)
	}
}

func FuzzReadVerbs(f *testing.F) {
	f.Add("drain.cachenode.io/edge-1.disk2", "")
	f.Add("replace.cachenode.io/edge-1.disk2", "2026-11-21T11:00:00Z")
	f.Add("readmit.cachenode.io/..", "x")
	f.Fuzz(func(t *testing.T, key, value string) {
		s := cluster(2, 2)
		s.CacheNode.Annotations = map[string]string{key: value}
		v := ReadVerbs(s.CacheNode)
		for d := range v.Replace {
			if v1alpha1.Replace.Annotation(d.Pod, d.Disk) != key {
				t.Errorf("%q is taken for %v", key, d)
			}
		}
		for pod, disks := range v.Drained {
			for _, disk := range disks {
				if v1alpha1.Drain.Annotation(pod, disk) != key {
					t.Errorf("%q is taken for %s", key, fmt.Sprint(pod, disk))
				}
			}
		}
	})
}

// bareState returns the State of a CacheNode without pods or claims, in a cluster with nodes in three zones.
func bareState(pods, nodes int) State {
	s := cluster(0, nodes)
	s.CacheNode.Spec.Replicas, s.All = new(int32(pods)), []corev1.PersistentVolume{}
	for i := range s.Nodes {
		s.Nodes[i].Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%3)
	}
	return s
}

// carryOut creates the volumes that the plan for the state asks for. The creation time of the volumes is the duration
// ago before now.
func (s *State) carryOut(ago time.Duration) {
	for _, v := range Plan(*s).Follow.Create {
		v.CreationTimestamp = metav1.NewTime(s.Now.Add(-ago))
		s.Volumes[v.Name] = v
		s.All = append(s.All, *v)
	}
}

// nodesWithVolumes counts the nodes that have volumes.
func (s *State) nodesWithVolumes() int {
	nodes := map[string]bool{}
	for _, v := range s.Volumes {
		nodes[v.Annotations[naming.AnnotationNode]] = true
	}
	return len(nodes)
}

// TestVolumesOnlyWherePodsNeedThem checks that a CacheNode creates volumes only on a few nodes of a large cluster.
// These are a few more nodes than the pods need, so that the scheduler has a choice.
func TestVolumesOnlyWherePodsNeedThem(t *testing.T) {
	for pods, want := range map[int]int{0: 0, 1: 3, 3: 5, 40: 40} {
		s := bareState(pods, 40)
		for range 10 {
			s.carryOut(0)
		}
		if got := s.nodesWithVolumes(); got != want {
			t.Errorf("for %d pods, %d of 40 nodes have volumes, want %d", pods, got, want)
		}
	}
	s := bareState(1, 40)
	s.carryOut(time.Minute)
	zones := map[string]bool{}
	for _, v := range s.Volumes {
		zones[s.node(v.Annotations[naming.AnnotationNode]).Labels[corev1.LabelTopologyZone]] = true
	}
	if len(zones) != 3 {
		t.Errorf("the volumes are in the zones %v, want all three", zones)
	}
	if a := Plan(s); len(a.Follow.Create)+len(a.Follow.Delete) > 0 {
		t.Errorf("the same state has %d volumes created and %d deleted", len(a.Follow.Create), len(a.Follow.Delete))
	}
	stuck := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	s.Pods = []corev1.Pod{stuck}
	var grown []int
	for range 5 {
		s.carryOut(time.Minute)
		grown = append(grown, s.nodesWithVolumes())
	}
	if diff := cmp.Diff([]int{6, 12, 24, 40, 40}, grown); diff != "" {
		t.Errorf("nodes with volumes while a pod cannot be placed (-want +got)\n%s", diff)
	}
}

// TestPodsWithoutNodeGetVolumes checks that a pod without a node gets volumes on a free node, even if other claims or
// volumes take the other nodes.
func TestPodsWithoutNodeGetVolumes(t *testing.T) {
	created := func(s State) []string { s.All = live(s); return places(Plan(s).Follow.Create) }
	want := []string{"node-5 /mnt/disk1", "node-5 /mnt/disk2"}
	t.Run("claims of pods that were scaled away hold the others", func(t *testing.T) {
		s := cluster(5, 6)
		s.CacheNode.Spec.Replicas, s.Pods = new(int32(3)), s.Pods[:3]
		s.Nodes = s.Nodes[1:] // the first pod's node is gone
		if diff := cmp.Diff(want, created(s)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("others have the path on the nodes that come first", func(t *testing.T) {
		for taken := range 2 {
			s := cluster(4, 6)
			s.CacheNode.Spec.Replicas = new(int32(5))
			first := manifest.LocalVolume(s.CacheNode, s.CacheNode.Spec.Disks[0], &s.Nodes[4+taken])
			first.Labels[naming.LabelInstance] = "other"
			s.All = append(live(s), *first)
			a := Plan(s)
			free := fmt.Sprint("node-", 5-taken)
			if len(a.Follow.Taken) > 0 || len(a.Follow.Create) != 2 ||
				a.Follow.Create[0].Annotations[naming.AnnotationNode] != free {
				t.Errorf("another has the path on node-%d, created are %v, taken %v",
					4+taken, places(a.Follow.Create), a.Follow.Taken)
			}
		}
	})
	t.Run("more volumes come only when the scheduler has failed for a while", func(t *testing.T) {
		s := bareState(1, 40)
		s.carryOut(4 * time.Second)
		stuck := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
		stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		s.Pods = []corev1.Pod{stuck}
		if a := Plan(s); len(a.Follow.Create) > 0 || a.After != moreNodesAfter-3*time.Second {
			t.Errorf("%d volumes are created, again after %s", len(a.Follow.Create), a.After)
		}
	})
	t.Run("cordoned nodes are no first choice", func(t *testing.T) {
		s := bareState(1, 6)
		for i := range 3 {
			s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}
		for _, v := range Plan(s).Follow.Create {
			if node := v.Annotations[naming.AnnotationNode]; node < "node-3" {
				t.Errorf("%s is cordoned and has volumes", node)
			}
		}
	})
}

// TestVolumesFollowTheirDisks checks that an existing volume gets the current size of its disk.
func TestVolumesFollowTheirDisks(t *testing.T) {
	s := cluster(1, 1)
	s.CacheNode.Spec.Disks[1].Size = resource.MustParse("2Gi")
	sizes := map[string]string{}
	for _, v := range Plan(s).Follow.Update {
		sizes[v.Annotations[naming.AnnotationPath]] = v.Spec.Capacity.Storage().String()
	}
	if diff := cmp.Diff(map[string]string{"/mnt/disk1": "0", "/mnt/disk2": "2Gi"}, sizes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestVolumesAreBounded checks the maximum number of volumes for each namespace and for each pass.
func TestVolumesAreBounded(t *testing.T) {
	s := bareState(40, 40)
	if a := Plan(s); len(a.Follow.Create) != maxCreate || !a.Follow.More || a.Follow.TooMany != "" {
		t.Errorf("one pass creates %d volumes, want %d and another pass", len(a.Follow.Create), maxCreate)
	}
	s.MaxVolumes = 50
	other := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "other", Labels: naming.VolumeLabels("default", "other", "disk1", naming.RoleDisk),
	}}
	elsewhere := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "elsewhere", Labels: naming.VolumeLabels("elsewhere", "edge", "disk1", naming.RoleDisk),
	}}
	s.All = append(s.All, other, elsewhere)
	tooMany := "may have 50 volumes together, and this one needs 32 for which there is no room"
	if a := Plan(s); len(a.Follow.Create) != 48 || !strings.Contains(a.Follow.TooMany, tooMany) {
		t.Errorf("%d volumes are created, want 48: those of whole nodes; %q", len(a.Follow.Create), a.Follow.TooMany)
	}
	s.CacheNode.Spec.Replicas = new(int32(24))
	if a := Plan(s); len(a.Follow.Create) != 48 || a.Follow.TooMany != "" {
		t.Errorf("%d volumes are created, want 48: what is missing is a choice for the scheduler only; %q",
			len(a.Follow.Create), a.Follow.TooMany)
	}
}
