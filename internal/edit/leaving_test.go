package edit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestLeaving(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	disks := func(names ...string) (list []v1alpha1.Disk) {
		for _, name := range names {
			list = append(list, v1alpha1.Disk{Name: name})
		}
		return list
	}
	without := func(name string) []v1alpha1.Disk { return []v1alpha1.Disk{{Name: name, Weight: new(int32(0))}} }
	for name, tt := range map[string]struct {
		running, wanted []v1alpha1.Disk
		until           time.Time
		want            []v1alpha1.Disk
	}{
		"nothing changes":       {disks("disk1", "disk2"), disks("disk1", "disk2"), time.Time{}, nil},
		"a new CacheNode":       {nil, disks("disk1"), time.Time{}, nil},
		"a disk is removed":     {disks("disk1", "disk2"), disks("disk1"), time.Time{}, without("disk2")},
		"it is handed over":     {append(disks("disk1"), without("disk2")...), disks("disk1"), now.Add(1), without("disk2")},
		"the hand-over is over": {append(disks("disk1"), without("disk2")...), disks("disk1"), now, nil},
		"it comes back":         {append(disks("disk1"), without("disk2")...), disks("disk1", "disk2"), now.Add(1), nil},
		"another is removed too": {
			append(disks("disk1", "disk3"), without("disk2")...), disks("disk1"), now, without("disk3"),
		},
		"one for another": {disks("disk1", "disk2"), disks("disk1", "disk3"), time.Time{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Leaving(tt.running, tt.wanted, tt.until, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
