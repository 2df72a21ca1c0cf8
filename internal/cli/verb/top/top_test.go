package top

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

func TestTop(t *testing.T) {
	inf := math.Inf(1)
	before := map[string]podmetrics.Pod{
		"edge-0": {Disks: map[string]podmetrics.Disk{
			"disk1": {
				Requests: 100, Hits: 90, Bytes: 1000, Sampling: .1,
				FirstByte: map[float64]float64{.001: 50, .1: 90, inf: 100},
			},
			"disk2": {Requests: 5, Sampling: .1, FirstByte: map[float64]float64{.001: 5, .1: 5, inf: 5}},
		}},
		"edge-1": {Disks: map[string]podmetrics.Disk{
			"disk1": {Requests: 7, Hits: 7, Sampling: .1, FirstByte: map[float64]float64{.001: 7, .1: 7, inf: 7}},
		}},
		"restarted": {Disks: map[string]podmetrics.Disk{"disk1": {Requests: 1000}}},
	}
	after := map[string]podmetrics.Pod{
		"edge-0": {Disks: map[string]podmetrics.Disk{
			"disk1": {
				Requests: 120, Hits: 105, Bytes: 1000 + 4<<20, Overflows: 4, Sampling: .1, Size: 100, UsedBytes: 20,
				FirstByte: map[float64]float64{.001: 60, .1: 105, inf: 120},
			},
			"disk2": {
				Requests: 5, Sampling: .1, Size: 100, UsedBytes: 10,
				FirstByte: map[float64]float64{.001: 5, .1: 5, inf: 5},
			},
		}},
		"edge-1": {Disks: map[string]podmetrics.Disk{"disk1": {
			Requests: 27, Hits: 27, Sampling: .1, Size: 100, UsedBytes: 40,
			FirstByte: map[float64]float64{.001: 27, .1: 27, inf: 27},
		}}},
		"restarted": {Disks: map[string]podmetrics.Disk{"disk1": {Requests: 3}}},
		"new":       {Disks: map[string]podmetrics.Disk{"disk1": {Requests: 3}}},
	}
	for name, test := range map[string]struct {
		byPod bool
		want  string
	}{
		"by disk": {false, `
DISK    REQUESTS/S   HIT RATIO   BYTES/S    FIRST BYTE P50   P99      OVERFLOWS/S   USED
disk1   200.0        87.5%       20.0 MiB   ≤1ms             >100ms   2.0           30%
disk2   0.0          -           0.0 MiB    -                -        0.0           10%
`},
		"by pod": {true, `
POD      DISK    REQUESTS/S   HIT RATIO   BYTES/S    FIRST BYTE P50   P99      OVERFLOWS/S   USED
edge-0   disk1   100.0        too few     20.0 MiB   ≤1ms             >100ms   2.0           20%
edge-0   disk2   0.0          -           0.0 MiB    -                -        0.0           10%
edge-1   disk1   100.0        too few     0.0 MiB    ≤1ms             ≤1ms     0.0           40%
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			write(&out, rates(before, after, 2*time.Second, test.byPod), test.byPod)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestForPrograms checks the field names that scripts read. It also checks that a ratio from too few samples is left
// out.
func TestForPrograms(t *testing.T) {
	t.Parallel()
	disks := []rate{
		{
			disk: "disk1", requests: 20, sampled: 40, sampledHits: 30, sampling: .1, bytes: 5, used: 1, size: 2,
			firstByte: map[float64]float64{.001: 30, math.Inf(1): 40},
		},
		{pod: "edge-0", disk: "disk2", sampled: 1, sampledHits: 1, sampling: .1},
	}
	text, err := json.Marshal(summarize(disks, []routingRate{{pod: "edge-0", share: .5, peer: 3}}, 2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"seconds":2,"disks":[` +
		`{"disk":"disk1","requests":20,"samples":40,"hitRatio":0.75,"bytes":5,"overflows":0,"usedBytes":1,"sizeBytes":2,` +
		`"firstByte50":{"seconds":0.001},"firstByte99":{"seconds":0.001,"above":true}},` +
		`{"pod":"edge-0","disk":"disk2","requests":0,"samples":1,"bytes":0,"overflows":0,"usedBytes":0,"sizeBytes":0}],` +
		`"pods":[{"pod":"edge-0","share":0.5,"toOwners":3,"toStandIns":0,"unanswered":0,"hopBytes":0,` +
		`"filled":0,"fetched":0}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRouting(t *testing.T) {
	was := podmetrics.Routing{
		Share: .5, Peer: 10, StandIn: 1, Bytes: 100, Unanswered: 1, Filled: 4, Fetched: 1, Sampling: .1,
	}
	now := podmetrics.Routing{
		Share: .5, Peer: 30, StandIn: 2, Bytes: 100 + 4<<20, Unanswered: 2, Filled: 8, Fetched: 2, Sampling: .1,
	}
	alone := podmetrics.Routing{Share: 1, Sampling: .1}
	for name, test := range map[string]struct {
		before, after map[string]podmetrics.Pod
		want          string
	}{
		"shared": {
			map[string]podmetrics.Pod{"edge-0": {Routing: was}, "edge-1": {Routing: now}},
			map[string]podmetrics.Pod{"edge-0": {Routing: now}, "edge-1": {Routing: was}, "new": {Routing: now}},
			`

POD      SHARE    TO OWNERS/S   TO STAND-INS/S   UNANSWERED/S   HOP BYTES/S   FILLED/S   FETCHED/S
edge-0   50.00%   100.0         5.0              5.0            20.0 MiB      2.0        0.5
`,
		},
		"each pod for itself": {
			map[string]podmetrics.Pod{"edge-0": {Routing: alone}}, map[string]podmetrics.Pod{"edge-0": {Routing: alone}}, "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			writeRouting(&out, routingRates(test.before, test.after, 2*time.Second))
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
