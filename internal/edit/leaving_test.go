package edit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestLeaving(t *testing.T) {
	disks := func(names ...string) (list []v1alpha1.Disk) {
		for _, name := range names {
			list = append(list, v1alpha1.Disk{Name: name})
		}
		return list
	}
	yes := func(string) bool { return true }
	without := func(name string) []v1alpha1.Disk { return []v1alpha1.Disk{{Name: name, Weight: new(int32(0))}} }
	begun := append(disks("disk1"), without("disk2")...)
	for name, tt := range map[string]struct {
		in   Removal
		want []v1alpha1.Disk
	}{
		"nothing changes":   {Removal{Stable: disks("disk1", "disk2"), Wanted: disks("disk1", "disk2")}, nil},
		"a new CacheNode":   {Removal{Wanted: disks("disk1")}, nil},
		"a disk is removed": {Removal{Stable: disks("disk1", "disk2"), Wanted: disks("disk1")}, without("disk2")},
		"it is rolled out": {
			Removal{Stable: disks("disk1", "disk2"), Candidate: begun, Wanted: disks("disk1"), Source: yes}, without("disk2"),
		},
		"the hand-over ends before all pods have it": {
			Removal{Stable: disks("disk1", "disk2"), Candidate: begun, Wanted: disks("disk1")}, nil,
		},
		"it is handed over":     {Removal{Stable: begun, Wanted: disks("disk1"), Source: yes}, without("disk2")},
		"the hand-over is over": {Removal{Stable: begun, Wanted: disks("disk1")}, nil},
		"it comes back":         {Removal{Stable: begun, Wanted: disks("disk1", "disk2"), Source: yes}, nil},
		"it is gone from the candidate": {
			Removal{Stable: disks("disk1", "disk2"), Candidate: disks("disk1"), Wanted: disks("disk1"), Source: yes}, nil,
		},
		"it is gone from the candidate, and was about to leave": {
			Removal{Stable: begun, Candidate: disks("disk1"), Wanted: disks("disk1"), Source: yes}, nil,
		},
		"another is removed too": {
			Removal{Stable: append(disks("disk1", "disk3"), without("disk2")...), Wanted: disks("disk1")},
			without("disk3"),
		},
		"one for another":   {Removal{Stable: disks("disk1", "disk2"), Wanted: disks("disk1", "disk3")}, nil},
		"it cannot be read": {Removal{Stable: disks("disk1", "failed"), Wanted: disks("disk1")}, nil},
		"it fails as it leaves": {
			Removal{Stable: append(disks("disk1"), without("failed")...), Wanted: disks("disk1"), Source: yes},
			without("failed"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.MayBegin = func(disk string) bool { return disk != "failed" }
			if tt.in.Source == nil {
				tt.in.Source = func(string) bool { return false }
			}
			if diff := cmp.Diff(tt.want, Leaving(tt.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
