// Package podmetrics reads the metrics of a CacheNode's pods, for the plugin's verbs that show numbers.
//
// It imports connect, agentapi for the names in metrics, and layout for the port. For another number that a verb
// shows, add a field here.
package podmetrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// Disk contains the metrics of a pod about a disk. Counters count since the agent started. The counters of requests
// count only a sample of the requests.
type Disk struct {
	Size, UsedBytes, Hits, Requests float64
	// CacheBytes is the estimated size of the cache's files. UsedBytes is the number of bytes in use on the file system,
	// including the files of others.
	CacheBytes float64
	// Bytes counts the bytes sent to clients. Overflows counts the tasks that found the queue full.
	Bytes, Overflows float64
	// FirstByte maps a time in seconds to the number of requests whose first byte came within this time.
	FirstByte map[float64]float64
	// Sampling is the share of requests that are counted, from 0 to 1.
	Sampling float64
}

// Pod contains the metrics of a pod.
type Pod struct {
	// Disks are the metrics of the disks, by the name of the disk. Requests for which no disk was chosen are under the
	// name "".
	Disks   map[string]Disk
	Routing Routing
}

// Routing contains the metrics of a pod about the keys that pods share. Counters count since the agent started.
type Routing struct {
	// Share is the pod's share of the keys, from 0 to 1.
	Share float64
	// Peer counts the requests that the owner of a key answered. StandIn counts the requests that the owner's stand-in
	// answered. Bytes counts the bytes of these answers. All three count only a sample of the requests.
	Peer, StandIn, Bytes float64
	// Unanswered counts the hops that got no answer.
	Unanswered float64
	// Filled counts the objects that were filled from the pod or disk that had their keys before. Fetched counts the
	// objects that came from the origin.
	Filled, Fetched float64
	// Sampling is the share of requests that are counted, from 0 to 1.
	Sampling float64
}

// Used returns a text for people that shows how much of the disk is in use; "-" if that is unknown.
func (n Disk) Used() string {
	if n.Size == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%% of %.1f GiB", 100*n.UsedBytes/n.Size, n.Size/(1<<30))
}

// HitRatio returns a text for people that shows which share of the disk's requests were HITs. It is "-" if there were
// no requests, and "too few" if the sample is too small; see [HitRatio].
func (n Disk) HitRatio() string { return HitRatio(n.Hits, n.Requests, n.Sampling) }

// enoughSamples is the minimum number of sampled requests for a ratio. With this number, the ratio in the sample
// usually differs by less than 10 percentage points from the ratio of all requests.
const enoughSamples = 30

// IsEnough returns true if a number of counted requests suffices for a ratio. If all requests are counted, any number
// suffices.
func IsEnough(requests, sampling float64) bool {
	return requests > 0 && (sampling >= 1 || requests >= enoughSamples)
}

// HitRatio returns a text for people that shows which share of the counted requests were HITs. It returns "-" if
// there were no requests, and "too few" if the sample is too small for a ratio.
func HitRatio(hits, requests, sampling float64) string {
	switch {
	case requests == 0:
		return "-"
	case !IsEnough(requests, sampling):
		return "too few"
	}
	return fmt.Sprintf("%.1f%%", 100*hits/requests)
}

// All estimates the number of all requests of the disk from the counted sample.
func (n Disk) All() float64 {
	if n.Sampling == 0 {
		return 0
	}
	return n.Requests / n.Sampling
}

// Read reads the metrics of the pods, several pods at the same time. It omits pods that do not answer. The error says
// why the last of these pods did not answer.
func Read(ctx context.Context, cluster *connect.Cluster, pods []string) (map[string]Pod, error) {
	var mutex sync.Mutex
	var failed error
	all := map[string]Pod{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, pod := range pods {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			text, err := cluster.Kubernetes.CoreV1().Pods(cluster.Namespace).
				ProxyGet("http", pod, strconv.Itoa(layout.MetricsPort), "metrics", nil).DoRaw(ctx)
			var numbers Pod
			if err == nil {
				numbers, err = parse(bytes.NewReader(text))
			}
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				failed = fmt.Errorf("metrics of pod %s: %w", pod, err)
				return nil
			}
			all[pod] = numbers
			return nil
		})
	}
	_ = group.Wait() // none of the functions returns an error
	return all, failed
}

// parse reads the agent's metrics.
func parse(text io.Reader) (Pod, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return Pod{}, err
	}
	numbers := map[string]Disk{}
	each := func(family string, add func(n *Disk, cache string, value float64)) {
		for _, m := range families[family].GetMetric() {
			disk := label(m, "disk")
			n := numbers[disk]
			add(&n, label(m, "cache"), m.GetGauge().GetValue()+m.GetCounter().GetValue())
			numbers[disk] = n
		}
	}
	each("cachenode_disk_size_bytes", func(n *Disk, _ string, v float64) { n.Size = v })
	each("cachenode_cache_size_bytes", func(n *Disk, _ string, v float64) { n.CacheBytes = v })
	each("cachenode_disk_used_bytes", func(n *Disk, _ string, v float64) { n.UsedBytes = v })
	// Requests that bypassed their disk are all counted. Of the other requests, only a sample is counted.
	pastDisk := func(cache string) bool { return cache == agentapi.CacheOtherDisk || cache == agentapi.CacheUncached }
	each("cachenode_requests_total", func(n *Disk, cache string, v float64) {
		if pastDisk(cache) {
			return
		}
		n.Requests += v
		if agentapi.IsHit(cache) {
			n.Hits += v
		}
	})
	each("cachenode_response_bytes_total", func(n *Disk, cache string, v float64) {
		if !pastDisk(cache) {
			n.Bytes += v
		}
	})
	each("cachenode_thread_pool_overflows_total", func(n *Disk, _ string, v float64) { n.Overflows = v })
	sampling := 0.0
	for _, m := range families["cachenode_request_sampling_ratio"].GetMetric() {
		sampling = m.GetGauge().GetValue()
	}
	for _, m := range families["cachenode_first_byte_seconds"].GetMetric() {
		if label(m, "from") == "elsewhere" {
			continue
		}
		n := numbers[label(m, "disk")]
		if n.FirstByte == nil {
			n.FirstByte = map[float64]float64{}
		}
		for _, b := range m.GetHistogram().GetBucket() {
			n.FirstByte[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
		numbers[label(m, "disk")] = n
	}
	for name, n := range numbers {
		n.Sampling = sampling
		numbers[name] = n
	}
	return Pod{Disks: numbers, Routing: parseRouting(families, sampling)}, nil
}

// parseRouting reads the agent's metrics about the keys that pods share.
func parseRouting(families map[string]*dto.MetricFamily, sampling float64) Routing {
	sum := func(family, name, value string) (total float64) {
		for _, m := range families[family].GetMetric() {
			if name == "" || label(m, name) == value {
				total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return total
	}
	return Routing{
		Share:      sum("cachenode_key_share_ratio", "", ""),
		Peer:       sum("cachenode_hops_total", "hop", agentapi.TagPeer),
		StandIn:    sum("cachenode_hops_total", "hop", agentapi.TagStandIn),
		Bytes:      sum("cachenode_hop_bytes_total", "", ""),
		Unanswered: sum("cachenode_hops_unanswered_total", "", ""),
		Filled: sum("cachenode_fills_total", "source", agentapi.FromPeer) +
			sum("cachenode_fills_total", "source", agentapi.FromDisk),
		Fetched:  sum("cachenode_fills_total", "source", agentapi.FromOrigin),
		Sampling: sampling,
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
