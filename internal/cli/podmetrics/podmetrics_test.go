package podmetrics

import (
	"math"
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
# TYPE cachenode_response_bytes_total counter
cachenode_response_bytes_total{disk="disk1",cache="HIT"} 50
cachenode_response_bytes_total{disk="disk1",cache="MISS"} 20
# TYPE cachenode_thread_pool_overflows_total counter
cachenode_thread_pool_overflows_total{disk="disk2"} 3
# TYPE cachenode_request_sampling_ratio gauge
cachenode_request_sampling_ratio 0.5
# TYPE cachenode_first_byte_seconds histogram
cachenode_first_byte_seconds_bucket{disk="disk1",from="cache",le="0.001"} 6
cachenode_first_byte_seconds_bucket{disk="disk1",from="cache",le="+Inf"} 8
cachenode_first_byte_seconds_sum{disk="disk1",from="cache"} 1
cachenode_first_byte_seconds_count{disk="disk1",from="cache"} 8
cachenode_first_byte_seconds_bucket{disk="disk1",from="origin",le="0.001"} 1
cachenode_first_byte_seconds_bucket{disk="disk1",from="origin",le="+Inf"} 2
cachenode_first_byte_seconds_sum{disk="disk1",from="origin"} 1
cachenode_first_byte_seconds_count{disk="disk1",from="origin"} 2
# TYPE cachenode_key_share_ratio gauge
cachenode_key_share_ratio 0.25
# TYPE cachenode_hops_total counter
cachenode_hops_total{hop="peer",ordinal="1",cache="HIT"} 4
cachenode_hops_total{hop="peer",ordinal="2",cache="MISS"} 3
cachenode_hops_total{hop="standin",ordinal="2",cache="HIT"} 2
# TYPE cachenode_hop_bytes_total counter
cachenode_hop_bytes_total{hop="peer",ordinal="1"} 800
cachenode_hop_bytes_total{hop="standin",ordinal="2"} 100
# TYPE cachenode_hops_unanswered_total counter
cachenode_hops_unanswered_total{ordinal="1"} 3
# TYPE cachenode_fills_total counter
cachenode_fills_total{source="peer"} 3
cachenode_fills_total{source="disk"} 2
cachenode_fills_total{source="origin"} 4
`))
	want := Pod{Disks: map[string]Disk{
		"disk1": {
			Size: 1000, UsedBytes: 250, Hits: 8, Requests: 10, Bytes: 70,
			FirstByte: map[float64]float64{.001: 7, math.Inf(1): 10}, Sampling: .5,
		},
		"disk2": {Requests: 1, Overflows: 3, Sampling: .5},
	}, Routing: Routing{
		Share: .25, Peer: 7, StandIn: 2, Bytes: 900, Unanswered: 3, Filled: 5, Fetched: 4, Sampling: .5,
	}}
	if diff := cmp.Diff(want, numbers); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	if _, err := parse(strings.NewReader("<html>")); err == nil {
		t.Error("a page of another kind is taken")
	}
}
