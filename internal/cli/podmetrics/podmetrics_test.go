package podmetrics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	want := Pod{"disk1": {Size: 1000, UsedBytes: 250, Hits: 8, Requests: 10}, "disk2": {Requests: 1}}
	if diff := cmp.Diff(want, numbers); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	if _, err := parse(strings.NewReader("<html>")); err == nil {
		t.Error("a page of another kind is taken")
	}
}
