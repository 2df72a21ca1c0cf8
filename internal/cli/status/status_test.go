package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestWrite(t *testing.T) {
	node := &v1alpha1.CacheNode{Status: v1alpha1.CacheNodeStatus{
		Disks: []v1alpha1.DiskStatus{{Name: "disk1", Share: "50.00%"}, {Name: "disk2", Share: "50.00%"}},
		Pods: []v1alpha1.PodStatus{
			{Name: "edge-0", Node: "node-1", Revision: "abc"},
			{Name: "edge-1", Node: "node-2", Revision: "abc", Disks: []v1alpha1.PodDiskStatus{
				{Name: "disk1", State: "Healthy", Share: "100.00%"},
				{Name: "disk2", State: "Failed", Reason: "IOError", Share: "0.00%", Message: "read: input/output error"},
			}},
			{Name: "edge-2", Message: "the agent does not answer"},
		},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Ready", Message: "3 of 3"},
			{Type: v1alpha1.ConditionAccepted, Status: "True", Reason: "Accepted", Message: "not shown"},
			{Type: v1alpha1.ConditionDegraded, Status: "True", Reason: "DiskFailed", Message: "edge-1: disk2"},
		},
	}}
	numbers := map[string]podNumbers{"edge-0": {"disk1": {size: 2 << 30, usedBytes: 1 << 30, hits: 3, requests: 4}}}
	var out strings.Builder
	if err := write(&out, node, numbers); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
Ready=True (Ready): 3 of 3
Degraded=True (DiskFailed): edge-1: disk2
POD      NODE     REVISION   DISK    STATE              SHARE     USED             HIT RATIO
edge-0   node-1   abc        disk1   Healthy            50.00%    50% of 2.0 GiB   75.0%
edge-0   node-1   abc        disk2   Healthy            50.00%    -                -
edge-1   node-2   abc        disk1   Healthy            100.00%   -                -
edge-1   node-2   abc        disk2   Failed (IOError)   0.00%     -                -
edge-2   -        -          disk1   -                  -         -                -
edge-2   -        -          disk2   -                  -         -                -
edge-1, disk2: read: input/output error
edge-2: the agent does not answer
`, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	numbers, err := parse(strings.NewReader(`
# TYPE cachenode_disk_size_bytes gauge
cachenode_disk_size_bytes{disk="disk1"} 1000
# TYPE cachenode_disk_used_bytes gauge
cachenode_disk_used_bytes{disk="disk1"} 250
# TYPE cachenode_requests_total counter
cachenode_requests_total{disk="disk1",cache="HIT"} 6
cachenode_requests_total{disk="disk1",cache="STALE"} 2
cachenode_requests_total{disk="disk1",cache="MISS"} 2
cachenode_requests_total{disk="disk1",cache="OTHER_DISK"} 90
cachenode_requests_total{disk="disk2",cache="MISS"} 1
`))
	want := podNumbers{"disk1": {size: 1000, usedBytes: 250, hits: 8, requests: 10}, "disk2": {requests: 1}}
	if diff := cmp.Diff(want, numbers, cmp.AllowUnexported(diskNumbers{})); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	if _, err := parse(strings.NewReader("<html>")); err == nil {
		t.Error("a page of another kind is taken")
	}
}
