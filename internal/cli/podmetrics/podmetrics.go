// Package podmetrics asks the pods of a CacheNode for their metrics, for the plugin's verbs that show numbers.
//
// It imports connect, agentapi for the names in metrics, and layout for the port. Another number that a verb shows is a
// field here.
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

// Disk is what the metrics of a pod say of a disk. Counters count since the agent started; those of requests count a
// sample.
type Disk struct {
	Size, UsedBytes, Hits, Requests float64
	// CacheBytes is the estimated size of the cache's files. UsedBytes is what the file system has in use, including what
	// others have there.
	CacheBytes float64
	// Bytes counts the bytes sent to clients, Overflows the tasks that found the queue full.
	Bytes, Overflows float64
	// FirstByte counts, by number of seconds, the requests whose first byte came within so many seconds.
	FirstByte map[float64]float64
	// Sampling is the share of requests that are counted, from 0 to 1.
	Sampling float64
}

// Pod has what the metrics of a pod say.
type Pod struct {
	// Disks are the disks by name. Requests that never chose a disk have the name "".
	Disks   map[string]Disk
	Routing Routing
}

// Routing is what the metrics of a pod say of the keys that pods share. Counters count since the agent started.
type Routing struct {
	// Share is the pod's share of the keys, from 0 to 1.
	Share float64
	// Peer and StandIn count the requests that the owner of a key or its stand-in answered, Bytes what they sent. All are
	// a sample.
	Peer, StandIn, Bytes float64
	// Unanswered counts the hops that got no answer.
	Unanswered float64
	// Filled counts the objects that were filled from the pod or disk that had them, Fetched those from the origin.
	Filled, Fetched float64
	// Sampling is the share of requests that are counted, from 0 to 1.
	Sampling float64
}

// Used says for people how much of the disk is in use; "-" if that is unknown.
func (n Disk) Used() string {
	if n.Size == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%% of %.1f GiB", 100*n.UsedBytes/n.Size, n.Size/(1<<30))
}

// HitRatio says for people which share of the disk's requests were HITs; "-" if there were none.
func (n Disk) HitRatio() string { return HitRatio(n.Hits, n.Requests, n.Sampling) }

// enoughSamples is how many sampled requests make a ratio: it is then off by less than 10% of all requests as a rule.
const enoughSamples = 30

// IsEnough returns true if a number of counted requests makes a ratio. If all requests are counted, any number does.
func IsEnough(requests, sampling float64) bool {
	return requests > 0 && (sampling >= 1 || requests >= enoughSamples)
}

// HitRatio says for people which share of counted requests were HITs; "-" if there were none, and "too few" if so few
// of a sample say nothing.
func HitRatio(hits, requests, sampling float64) string {
	switch {
	case requests == 0:
		return "-"
	case !IsEnough(requests, sampling):
		return "too few"
	}
	return fmt.Sprintf("%.1f%%", 100*hits/requests)
}

// All estimates the number of the disk's requests, of which only a sample is counted.
func (n Disk) All() float64 {
	if n.Sampling == 0 {
		return 0
	}
	return n.Requests / n.Sampling
}

// Read asks the pods for their metrics, some at a time. It leaves out pods that do not answer; the error says why the
// last of them did not.
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
	_ = group.Wait() // none returns an error
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
	// Requests that went past the disk are counted one by one; the others are sampled.
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

// parseRouting reads what the agent's metrics say of the keys that pods share.
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
