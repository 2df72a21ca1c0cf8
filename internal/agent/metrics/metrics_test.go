package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// filled returns metrics that have counted events of each kind.
func filled(t *testing.T) *Metrics {
	t.Helper()
	m := New(clock.RealClock{},
		func() map[string]disk.State {
			return map[string]disk.State{
				"disk1": {Status: v1alpha1.DiskHealthy, Usage: disk.Usage{Size: 100, Free: 40, Inodes: 10, FreeInodes: 9}},
				"disk2": {Status: v1alpha1.DiskFailed, Reason: v1alpha1.DiskFull},
			}
		},
		func() map[string]Files { return map[string]Files{"disk1": {Count: 3, Bytes: 60}} },
	)
	m.Disk("disk1")
	m.Disk("disk2")
	m.Pods([]int{0, 1, 2, 3})
	for _, r := range []nginxlog.Request{
		{
			Tag: agentapi.TagCached, Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 10,
			FirstByte: time.Millisecond, Duration: time.Second,
		},
		{Tag: agentapi.TagCached, Disk: "disk1", Cache: "MISS", Status: 200, Bytes: 10},
		{Tag: agentapi.TagOtherDisk, Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 10},
		{Tag: agentapi.TagUncached, Disk: "disk2", Status: 503, Bytes: 10, Rejected: true},
		{Tag: agentapi.TagPassed, Disk: "disk2", Status: 503, Bytes: 10, Rejected: true}, // the same request again
		{Tag: agentapi.TagCached, Disk: "disk1", Status: 200, Bytes: 10},
		{Tag: agentapi.TagPeer, Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 11, Owner: "1", StandIn: "2"},
		{Tag: agentapi.TagPeer, Disk: "disk1", Cache: "HIT", Status: 200, Bytes: 11, Owner: "1", StandIn: "2"},
		{Tag: agentapi.TagStandIn, Disk: "disk1", Status: 200, Bytes: 11, Owner: "1", StandIn: "2", SkipsOwner: true},
		{Tag: agentapi.TagAlone, Disk: "disk1", Status: 200, Bytes: 11, Owner: "3", StandIn: "0"},
		{Tag: agentapi.TagFilled, Disk: "disk1", Status: 200, Bytes: 11},
		{Tag: agentapi.TagFilledFromDisk, Disk: "disk1", Status: 200, Bytes: 11},
		{Tag: agentapi.TagUnfilled, Disk: "disk1", Status: 200, Bytes: 11},
		{Tag: agentapi.TagUnfilled, Disk: "disk1", Status: 200, Bytes: 11},
		{Tag: agentapi.TagSlice, Disk: "disk1", Status: 206, Bytes: 7},
		{Tag: agentapi.TagSlice, Disk: "disk1", Status: 206, Bytes: 7},
	} {
		m.Request(r)
	}
	for _, e := range []nginxlog.Error{
		{Disk: "disk1", Event: nginxlog.QueueOverflow},
		{Disk: "disk1", Event: nginxlog.Failure},
		{Disk: "disk1", Event: nginxlog.IndexLoaded},
		{Level: "crit", Disk: "disk1"}, // an error about a file that the agent has removed
		{},
	} {
		m.Error(e)
	}
	m.Probe("disk1", disk.Sample{Latency: time.Millisecond})
	m.Probe("disk1", disk.Sample{Latency: time.Second, Reason: v1alpha1.DiskSlow})
	m.Removed("disk1", sweep.Stale)
	m.Reload("taken")
	m.Running("abc", 10)
	m.Share(0.25)
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "Active connections: 3 \nserver accepts handled requests\n 5 5 7 \n"+
			"Reading: 0 Writing: 1 Waiting: 2 \n")
	}))
	t.Cleanup(stub.Close)
	m.Register(&NginxCollector{URL: stub.URL, Client: stub.Client()})
	return m
}

func TestMetrics(t *testing.T) {
	m := filled(t)
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := recorder.Body.String()
	for _, want := range []string{
		`cachenode_requests_total{cache="HIT",disk="disk1"} 1`,
		`cachenode_requests_total{cache="OTHER_DISK",disk="disk1"} 1`,
		`cachenode_requests_total{cache="UNCACHED",disk="disk2"} 1`,
		`cachenode_requests_total{cache="NONE",disk="disk1"} 1`,
		`cachenode_response_bytes_total{cache="HIT",disk="disk1"} 10`,
		`cachenode_request_duration_seconds_count{disk="disk1",from="cache"} 1`,
		`cachenode_request_duration_seconds_count{disk="disk1",from="elsewhere"} 1`,
		`cachenode_reloads_total{result="refused"} 0`,
		`cachenode_first_byte_seconds_count{disk="disk1",from="origin"} 2`,
		`cachenode_origin_responses_total{class="2xx"} 2`,
		`cachenode_slices_fetched_total{disk="disk1"} 2`,
		`cachenode_slice_bytes_fetched_total{disk="disk1"} 14`,
		`cachenode_hops_total{cache="HIT",hop="peer",ordinal="1"} 2`,
		`cachenode_hops_total{cache="NONE",hop="standin",ordinal="2"} 1`,
		`cachenode_hop_bytes_total{hop="peer",ordinal="1"} 22`,
		`cachenode_hops_unanswered_total{ordinal="1"} 1`,
		`cachenode_hop_breaker_open{disk="disk1",ordinal="1"} 1`,
		`cachenode_hops_unanswered_total{ordinal="3"} 1`,
		`cachenode_fills_total{source="peer"} 1`,
		`cachenode_fills_total{source="disk"} 1`,
		`cachenode_fills_total{source="origin"} 2`,
		`cachenode_key_share_ratio 0.25`,
		`cachenode_origin_responses_total{class="4xx"} 0`,
		`cachenode_origin_responses_total{class="5xx"} 0`,
		`cachenode_uncached_rejected_total 1`,
		`cachenode_thread_pool_overflows_total{disk="disk1"} 1`,
		`cachenode_disk_errors_total{disk="disk1"} 1`,
		`cachenode_cache_files_removed_total{disk="disk1",reason="stale"} 1`,
		`cachenode_cache_files_removed_total{disk="disk1",reason="cut"} 0`,
		`cachenode_index_loaded{disk="disk1"} 1`,
		`cachenode_disk_up{disk="disk1"} 1`,
		`cachenode_disk_up{disk="disk2"} 0`,
		`cachenode_disk_state{disk="disk2",state="Failed"} 1`,
		`cachenode_disk_failure{disk="disk2",reason="Full"} 1`,
		`cachenode_disk_used_bytes{disk="disk1"} 60`,
		`cachenode_disk_inodes_used{disk="disk1"} 1`,
		`cachenode_cache_files{disk="disk1"} 3`,
		`cachenode_cache_size_bytes{disk="disk1"} 60`,
		`cachenode_disk_probe_failures_total{disk="disk1",reason="IOError"} 0`,
		`cachenode_disk_probe_failures_total{disk="disk1",reason="Slow"} 1`,
		`cachenode_reloads_total{result="taken"} 1`,
		`cachenode_config_info{revision="abc"} 1`,
		`cachenode_request_sampling_ratio 0.1`,
		`cachenode_nginx_up 1`,
		`cachenode_nginx_requests_total 7`,
		`cachenode_nginx_connections{state="waiting"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, name := range []string{
		"cachenode_requests_total", "cachenode_first_byte_seconds",
		"cachenode_request_duration_seconds", "cachenode_response_bytes_total",
	} {
		_, help, _ := strings.Cut(text, "# HELP "+name+" ")
		if !strings.Contains(strings.SplitN(help, "\n", 2)[0], "Sampled") {
			t.Errorf("the help of %s does not say that it is sampled", name)
		}
	}
	m.Running("", 10)
	if got := testutil.ToFloat64(m.nginxUp); got != 0 {
		t.Errorf("nginx is up: %g", got)
	}
}

// TestLint checks names, units and help texts with the rules of the command "promtool check metrics".
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(filled(t).Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestEstimate(t *testing.T) {
	cache := t.TempDir()
	const digits = "0123456789abcdef"
	count, bytes := int64(0), int64(0)
	for i := range 4096 { // evenly, as nginx spreads its files
		dir := filepath.Join(cache, digits[i%16:i%16+1], digits[i/16%16:i/16%16+1]+digits[i/256:i/256+1])
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for j := range 2 {
			size := 100 + 100*j
			if err := os.WriteFile(filepath.Join(dir, string(rune('a'+j))), make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			count++
			bytes += int64(size)
		}
	}
	got, err := Estimate(cache)
	if err != nil || got.Count != count || got.Bytes != bytes {
		t.Errorf("%+v (error %v), want %d files of %d bytes", got, err, count, bytes)
	}
	if got, err := Estimate(t.TempDir()); err != nil || got != (Files{}) {
		t.Errorf("an empty cache: %+v (error %v)", got, err)
	}
	if _, err := Estimate(filepath.Join(cache, "nowhere")); err == nil {
		t.Error("no cache, no error")
	}
}

func TestParseStubStatus(t *testing.T) {
	if _, err := parseStubStatus("<html>"); err == nil {
		t.Error("a page of another kind is taken")
	}
}

// TestSeries checks that log lines about unknown disks and pods create no time series.
func TestSeries(t *testing.T) {
	m := filled(t)
	series := func() int {
		t.Helper()
		n, err := testutil.GatherAndCount(m.Gatherer())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := series()
	for i := range 1000 {
		unknown, pod := fmt.Sprintf("d%d", i), strconv.Itoa(i+4)
		for _, event := range []nginxlog.Event{nginxlog.Failure, nginxlog.QueueOverflow, nginxlog.IndexLoaded} {
			m.Error(nginxlog.Error{Disk: unknown, Event: event})
		}
		m.Request(nginxlog.Request{Tag: agentapi.TagCached, Disk: unknown, Cache: "HIT", Status: 200})
		m.Request(nginxlog.Request{Tag: agentapi.TagSlice, Disk: unknown, Status: 206})
		for _, tag := range []string{agentapi.TagPeer, agentapi.TagStandIn, agentapi.TagAlone} {
			m.Request(nginxlog.Request{Tag: tag, Disk: "disk1", Owner: pod, SkipsOwner: true})
			m.Request(nginxlog.Request{Tag: tag, Disk: "disk1", Owner: "1", StandIn: pod})
			m.Request(nginxlog.Request{Tag: tag, Disk: unknown, Owner: "1"})
		}
	}
	if after := series(); after != before {
		t.Errorf("%d series, and %d after lines about unknown disks and pods", before, after)
	}
}
