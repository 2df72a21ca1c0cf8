package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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

// places are nodes and paths of volumes.
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
}

func TestVolumes(t *testing.T) {
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
		"a node joins": {
			change: func(s *State) { s.Nodes = append(s.Nodes, node(2)) },
			want:   append(slices.Clone(all), "node-2 /mnt/disk1", "node-2 /mnt/disk2"),
		},
		"a node leaves: what is held stays until it is let go of": {
			change: func(s *State) { s.Nodes = s.Nodes[:1]; free(on(s, "node-1 /mnt/disk2")) },
			want:   all[:2], del: []string{"node-1 /mnt/disk2"},
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
			want: []string{all[0], all[2]}, del: []string{"node-0 /mnt/disk2"},
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
			taken: []string{
				"spec.disks[0].localPath.path: /mnt/disk1/evil on node node-0 overlaps with /mnt/disk1, the volume of this CacheNode's disk disk1",
				"spec.disks[0].localPath.path: /mnt/disk1/evil on node node-1 overlaps with /mnt/disk1, the volume of this CacheNode's disk disk1",
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
			taken: []string{"spec.disks[0].localPath.path: /mnt/disk1 on node node-0 belongs to PersistentVolume everything"},
		},
		"a placeholder waits for a claim of a disk that was removed": {
			change: func(s *State) {
				placeholder(s)
				s.Claims = s.Claims[:1]
				s.CacheNode.Spec.Disks = s.CacheNode.Spec.Disks[:1]
			}, want: []string{all[0], all[2]}, del: []string{"node-0 "},
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
			p := Volumes(s.CacheNode, s.Nodes, live(s), s.Claims)
			for what, diff := range map[string]string{
				"wanted": cmp.Diff(tt.want, places(p.Wanted)), "offered": cmp.Diff(tt.offer, places(p.Offer)),
				"deleted": cmp.Diff(tt.del, places(p.Delete)), "taken": cmp.Diff(tt.taken, p.Taken),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got)\n%s", what, diff)
				}
			}
		})
	}
}

// TestVolumesOfNobody: those of a CacheNode that is gone go when their claims have gone.
func TestVolumesOfNobody(t *testing.T) {
	s := cluster(1, 1)
	gone := &v1alpha1.CacheNode{ObjectMeta: s.CacheNode.ObjectMeta}
	if p := Volumes(gone, nil, live(s), nil); len(p.Delete)+len(p.Offer)+len(p.Wanted) > 0 {
		t.Errorf("claims hold them, and the plan is %+v", p)
	}
	for _, v := range s.Volumes {
		v.Status.Phase = corev1.VolumeReleased
	}
	if p := Volumes(gone, nil, live(s), nil); len(p.Delete) != 2 {
		t.Errorf("%d volumes are deleted, want 2", len(p.Delete))
	}
}

func TestUnwanted(t *testing.T) {
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
			for _, c := range Unwanted(s) {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestGrown(t *testing.T) {
	s := cluster(1, 1)
	for i, size := range []string{"1Gi", "3Gi"} {
		s.Claims[i].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		s.CacheNode.Spec.Disks[i].Size = resource.MustParse("2Gi")
	}
	got := Grown(s)
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
	if text := strings.Join(v.Problems, "\n"); len(v.Problems) != 4 || !strings.Contains(text, `"soon" is no time`) || !strings.Contains(text, "edge-1.disk7 names no disk") {
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
			if naming.Replace.Annotation(d.Pod, d.Disk) != key {
				t.Errorf("%q is taken for %v", key, d)
			}
		}
		for pod, disks := range v.Drained {
			for _, disk := range disks {
				if naming.Drain.Annotation(pod, disk) != key {
					t.Errorf("%q is taken for %s", key, fmt.Sprint(pod, disk))
				}
			}
		}
	})
}
