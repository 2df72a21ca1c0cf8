package storage

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func TestAPodIsStuckOnlyWhileItsVolumesAreNotMounted(t *testing.T) {
	condition := func(kind corev1.PodConditionType, is corev1.ConditionStatus, ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	scheduled := condition(corev1.PodScheduled, corev1.ConditionTrue, time.Minute)
	tests := map[string]struct {
		conditions []corev1.PodCondition
		node       string
		patience   time.Duration
		want       bool
		after      time.Duration
	}{
		"for long":     {[]corev1.PodCondition{scheduled}, "node-0", 30 * time.Second, true, 0},
		"not for long": {[]corev1.PodCondition{scheduled}, "node-0", 90 * time.Second, false, 31 * time.Second},
		"on no node":   {nil, "", 30 * time.Second, false, 0},
		"switched off": {[]corev1.PodCondition{scheduled}, "node-0", 0, false, 0},
		"ready": {
			[]corev1.PodCondition{scheduled, condition(corev1.PodReady, corev1.ConditionTrue, 0)},
			"node-0", 30 * time.Second, false, 0,
		},
		"its volumes are there": {
			[]corev1.PodCondition{scheduled, condition(corev1.PodInitialized, corev1.ConditionTrue, 0)},
			"node-0", 30 * time.Second, false, 0,
		},
		"they are not there yet": {
			[]corev1.PodCondition{scheduled, condition(corev1.PodInitialized, corev1.ConditionFalse, 0)},
			"node-0", 30 * time.Second, true, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Spec.NodeName, pod.Status.Conditions = tt.node, tt.conditions
			s := State{CacheNode: &v1alpha1.CacheNode{}, Now: now}
			s.CacheNode.Spec.Disruption.DiskLossAfter = v1alpha1.Duration(tt.patience.String())
			if got, after := s.stuck(pod); got != tt.want || after != tt.after {
				t.Errorf("stuck is %t, after %s; want %t, %s", got, after, tt.want, tt.after)
			}
		})
	}
}

// TestTheKubeletsMessageNamesTheDisk checks that blamed finds the disk in messages of kubelet 1.36 and containerd 2.
func TestTheKubeletsMessageNamesTheDisk(t *testing.T) {
	s := cluster(1, 1)
	volume := s.Claims[1].Spec.VolumeName
	event := func(change func(*corev1.Event)) func(*corev1.Pod) []corev1.Event {
		return func(pod *corev1.Pod) []corev1.Event {
			e := corev1.Event{
				InvolvedObject: corev1.ObjectReference{UID: pod.UID}, Reason: "FailedMount",
				LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
				Message: `MountVolume.NewMounter initialization failed for volume "` + volume +
					`" : path "/mnt/disk2" does not exist`,
			}
			change(&e)
			return []corev1.Event{e}
		}
	}
	waiting := func(message string) func(*corev1.Pod) []corev1.Event {
		return func(pod *corev1.Pod) []corev1.Event {
			waiting := &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: message}
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: waiting}}}
			return nil
		}
	}
	tests := map[string]struct {
		events func(*corev1.Pod) []corev1.Event
		want   []string
	}{
		"a path that is gone": {event(func(*corev1.Event) {}), []string{"disk2"}},
		"a dead file system": {
			event(func(e *corev1.Event) {
				e.Message = `MountVolume.NewMounter initialization failed for volume "` + volume +
					`" : stat /mnt/disk2: input/output error`
			}), []string{"disk2"},
		},
		"long ago":      {event(func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(now.Add(-time.Hour)) }), nil},
		"another pod's": {event(func(e *corev1.Event) { e.InvolvedObject.UID = "other" }), nil},
		"another volume": {event(func(e *corev1.Event) {
			e.Message = `MountVolume.SetUp failed for volume "cachenode-config"`
		}), nil},
		"not attached yet":   {event(func(e *corev1.Event) { e.Reason = "FailedAttachVolume" }), nil},
		"nothing went wrong": {event(func(e *corev1.Event) { e.Reason = "Pulled" }), nil},
		"no events":          {func(*corev1.Pod) []corev1.Event { return nil }, nil},
		"a container beside a dead volume": {
			waiting(`failed to generate container "x" spec: failed to stat "/var/lib/kubelet/pods/1/volumes/` +
				`kubernetes.io~local-volume/` + volume + `": input/output error`),
			[]string{"disk2"},
		},
		"an image that is not there": {waiting("ErrImagePull"), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := s.Pods[0].DeepCopy()
			pod.UID = "1"
			events := tt.events(pod)
			got := slices.Sorted(maps.Keys(blamed(pod, s.claimsOf("edge-0"), events, now)))
			if !slices.Equal(got, tt.want) {
				t.Errorf("blamed are %v, want %v", got, tt.want)
			}
		})
	}
}

// TestReturnedDisksTakeTheirPlaces checks that claims are released in two cases only. Either a user's request is newer
// than the claim, the placeholder or the pod, or a scout has found the disk.
func TestReturnedDisksTakeTheirPlaces(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	first := PodDisk{"edge-0", "disk1"}
	// missing replaces the first disk by a placeholder that was created half an hour ago.
	missing := func(s *State) {
		v := manifest.Placeholder(s.CacheNode, &s.Claims[0], "disk1", &s.Nodes[0])
		v.CreationTimestamp = metav1.NewTime(ago(30 * time.Minute))
		s.Volumes[v.Name], s.Claims[0].Spec.VolumeName = v, v.Name
	}
	tests := map[string]struct {
		change       func(*State)
		verbs        Verbs
		back         map[PodDisk]bool
		failed       map[PodDisk]time.Time
		want         []string
		later        time.Duration
		wantsMissing int
	}{
		"nothing is asked": {},
		"replace a claim that is older": {
			verbs: Verbs{Replace: map[PodDisk]time.Time{first: ago(time.Minute)}},
			want:  []string{"edge-0 force=false evict=true disk1-edge-0"},
		},
		"replace one that is newer": {verbs: Verbs{Replace: map[PodDisk]time.Time{first: ago(2 * time.Hour)}}},
		"replace in a minute, by somebody's clock": {
			verbs: Verbs{Replace: map[PodDisk]time.Time{first: now.Add(time.Minute)}}, later: time.Minute,
		},
		"replace two disks": {
			verbs: Verbs{Replace: map[PodDisk]time.Time{first: ago(time.Minute), {"edge-0", "disk2"}: ago(time.Minute)}},
			want:  []string{"edge-0 force=false evict=true disk1-edge-0,disk2-edge-0"},
		},
		"a missing disk waits": {change: missing, wantsMissing: 1},
		"a missing disk is back": {
			change: missing, back: map[PodDisk]bool{first: true}, wantsMissing: 1,
			want: []string{"edge-0 force=false evict=true disk1-edge-0"},
		},
		"a missing disk is readmitted": {
			change: missing, verbs: Verbs{Readmit: map[PodDisk]time.Time{first: ago(time.Minute)}}, wantsMissing: 1,
			want: []string{"edge-0 force=false evict=true disk1-edge-0"},
		},
		"a missing disk was readmitted before it was missing": {
			change: missing, verbs: Verbs{Readmit: map[PodDisk]time.Time{first: ago(40 * time.Minute)}}, wantsMissing: 1,
		},
		"a failed disk is repaired": {
			verbs:  Verbs{Readmit: map[PodDisk]time.Time{first: ago(time.Minute)}},
			failed: map[PodDisk]time.Time{first: ago(10 * time.Minute)},
			want:   []string{"edge-0 force=false evict=true "},
		},
		"a disk fails that was repaired before": {
			verbs:  Verbs{Readmit: map[PodDisk]time.Time{first: ago(time.Minute)}},
			failed: map[PodDisk]time.Time{first: ago(time.Second)},
		},
		"a disk is readmitted that is well": {verbs: Verbs{Readmit: map[PodDisk]time.Time{first: ago(time.Minute)}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster(2, 2)
			if tt.change != nil {
				tt.change(&s)
			}
			s.Verbs, s.Disks = tt.verbs, map[PodDisk]Report{}
			for d, since := range tt.failed {
				s.Disks[d] = Report{State: v1alpha1.DiskFailed, Reason: v1alpha1.DiskIOError, Since: since}
			}
			for d := range tt.back {
				scout := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: naming.Scout(d.Disk, d.Pod)}}
				scout.Status.Phase = corev1.PodSucceeded
				s.Scouts.Pods = append(s.Scouts.Pods, scout)
			}
			got := Plan(s)
			if len(got.Missing) != tt.wantsMissing {
				t.Errorf("missing are %v, want %d", got.Missing, tt.wantsMissing)
			}
			if diff := cmp.Diff(tt.want, releases(got.Keep.Releases)); diff != "" || got.After != tt.later {
				t.Errorf("again after %s, want %s; (-want +got)\n%s", got.After, tt.later, diff)
			}
		})
	}
}

// TestUnmountedDisksGetPlaceholders checks which disks get a placeholder after their agent has reported them as not
// mounted.
func TestUnmountedDisksGetPlaceholders(t *testing.T) {
	first := PodDisk{"edge-0", "disk1"}
	local := func(s *State) { s.CacheNode.Spec.Disks[0].LocalPath = &v1alpha1.LocalPath{Path: "/mnt/disk1"} }
	tests := map[string]struct {
		change    func(*State)
		unmounted map[PodDisk]time.Time
		patience  time.Duration
		want      []PodDisk
		after     time.Duration
	}{
		"all are mounted": {change: local, patience: time.Minute},
		"for long": {
			local, map[PodDisk]time.Time{first: now.Add(-2 * time.Minute)}, time.Minute, []PodDisk{first}, 0,
		},
		"not for long": {
			local, map[PodDisk]time.Time{first: now.Add(-20 * time.Second)}, time.Minute, nil, 41 * time.Second,
		},
		"switched off": {local, map[PodDisk]time.Time{first: now.Add(-2 * time.Minute)}, 0, nil, 0},
		"of a class": {
			func(s *State) { s.CacheNode.Spec.Disks[0].LocalPath = nil },
			map[PodDisk]time.Time{first: now.Add(-2 * time.Minute)},
			time.Minute, nil, 0,
		},
		"of a pod too many": {
			local, map[PodDisk]time.Time{{"edge-7", "disk1"}: now.Add(-2 * time.Minute)}, time.Minute, nil, 0,
		},
		"not in the spec": {
			local, map[PodDisk]time.Time{{"edge-0", "disk9"}: now.Add(-2 * time.Minute)}, time.Minute, nil, 0,
		},
		"has a placeholder": {func(s *State) {
			local(s)
			s.Claims[0].Spec.VolumeName = naming.Placeholder(s.Claims[0].Namespace, s.Claims[0].Name)
		}, map[PodDisk]time.Time{first: now.Add(-2 * time.Minute)}, time.Minute, nil, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := cluster(2, 2)
			tt.change(&s)
			s.CacheNode.Spec.Disruption.DiskLossAfter, s.Disks = v1alpha1.Duration(tt.patience.String()), map[PodDisk]Report{}
			for d, since := range tt.unmounted {
				s.Disks[d] = Report{State: v1alpha1.DiskFailed, Reason: v1alpha1.DiskNotMounted, Since: since}
			}
			p := &plan{State: s}
			got := p.bare()
			if diff := cmp.Diff(tt.want, got); diff != "" || p.After != tt.after {
				t.Errorf("after is %s, want %s; (-want +got)\n%s", p.After, tt.after, diff)
			}
		})
	}
}
