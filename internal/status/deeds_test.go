package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// TestTold checks the events for the orders to a pod's agent.
func TestTold(t *testing.T) {
	t.Parallel()
	drained := func(disks string) map[string]string { return map[string]string{naming.AnnotationDrained: disks} }
	for name, tt := range map[string]struct {
		before, after map[string]string
		want          []string
	}{
		"nothing":            {drained("disk1"), drained("disk1"), nil},
		"a disk is drained":  {nil, drained("disk1"), []string{"edge-0 stopped using disk1; its files stay"}},
		"another is drained": {drained("disk1"), drained("disk2"), []string{"edge-0 stopped using disk2; its files stay"}},
		"it is readmitted":   {drained("disk1"), nil, []string{"edge-0 uses disk1 again"}},
		"a cache is deleted": {
			nil,
			map[string]string{naming.AnnotationEmpty: "disk1=a/b"},
			[]string{"edge-0 deletes caches whose CacheNode is gone: disk1=a/b"},
		},
		"both": {
			drained("disk1"),
			map[string]string{naming.AnnotationEmpty: "disk1=a/b"},
			[]string{"edge-0 uses disk1 again", "edge-0 deletes caches whose CacheNode is gone: disk1=a/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range Told("edge-0", tt.before, tt.after) {
				if got = append(got, e.Note); e.Pod != "edge-0" || e.Reason == "" || e.Action == "" {
					t.Errorf("the event is %+v", e)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestLeavesAtOnce checks that the pods with old agents cause one event, and that another event comes only if other
// pods have old agents.
func TestLeavesAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		told, pods []string
		want       int
	}{
		"none":          {nil, nil, 0},
		"one":           {nil, []string{"edge-0"}, 1},
		"the same":      {[]string{"edge-0"}, []string{"edge-0"}, 0},
		"another":       {[]string{"edge-0"}, []string{"edge-1"}, 1},
		"none any more": {[]string{"edge-0"}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := LeavesAtOnce(tt.told, tt.pods); len(got) != tt.want {
				t.Errorf("the events are %+v, want %d", got, tt.want)
			}
		})
	}
}

// TestReleased checks that the event for a release refers to the pod, if there is one, and that its note has a limited
// length.
func TestReleased(t *testing.T) {
	t.Parallel()
	release := storage.Release{Name: "edge-0", Reason: "DiskMissing", Note: string(make([]byte, 5000))}
	if e := Released(release); e.Pod != "" || e.Reason != "DiskMissing" || len(e.Note) != 1000 {
		t.Errorf("the event is about %q for %s, with %d bytes", e.Pod, e.Reason, len(e.Note))
	}
	release.Pod = &corev1.Pod{}
	release.Pod.Name = "edge-0"
	if e := Released(release); e.Pod != "edge-0" {
		t.Errorf("the event is about %q", e.Pod)
	}
}
