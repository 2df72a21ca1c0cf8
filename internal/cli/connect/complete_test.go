package connect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestPodsAndDisks(t *testing.T) {
	t.Parallel()
	cacheNode := func(name string, pods []string, disks ...string) (c v1alpha1.CacheNode) {
		c.Name = name
		for _, pod := range pods {
			c.Status.Pods = append(c.Status.Pods, v1alpha1.PodStatus{Name: pod})
		}
		for _, disk := range disks {
			c.Spec.Disks = append(c.Spec.Disks, v1alpha1.Disk{Name: disk})
		}
		return c
	}
	cacheNodes := []v1alpha1.CacheNode{
		cacheNode("edge", []string{"edge-0", "edge-1"}, "disk1", "disk2"),
		cacheNode("edge-eu", []string{"edge-eu-0"}, "ssd1"),
	}
	for name, tt := range map[string]struct{ args, want []string }{
		"a pod":                {nil, []string{"edge-0", "edge-1", "edge-eu-0"}},
		"a disk":               {[]string{"edge-1"}, []string{"disk1", "disk2"}},
		"another disk":         {[]string{"edge-1", "disk1"}, []string{"disk2"}},
		"a disk of a namesake": {[]string{"edge-eu-0"}, []string{"ssd1"}},
		"an unknown pod":       {[]string{"other-0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, podsAndDisks(cacheNodes, tt.args)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
