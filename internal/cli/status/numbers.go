package status

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

	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// diskNumbers are what the metrics of a pod say of a disk.
type diskNumbers struct{ size, usedBytes, hits, requests float64 }

// podNumbers are those of a pod, by disk.
type podNumbers map[string]diskNumbers

func (n diskNumbers) used() string {
	if n.size == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%% of %.1f GiB", 100*n.usedBytes/n.size, n.size/(1<<30))
}

func (n diskNumbers) hitRatio() string {
	if n.requests == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*n.hits/n.requests)
}

// readNumbers asks the pods for their metrics, some at a time. A pod that does not answer is left out.
func readNumbers(ctx context.Context, cluster *connect.Cluster, pods []string) map[string]podNumbers {
	var mutex sync.Mutex
	all := map[string]podNumbers{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, pod := range pods {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			text, err := cluster.Kubernetes.CoreV1().Pods(cluster.Namespace).
				ProxyGet("http", pod, strconv.Itoa(naming.MetricsPort), "metrics", nil).DoRaw(ctx)
			if err != nil {
				return nil //nolint:nilerr // the table shows "-"
			}
			if numbers, err := parse(bytes.NewReader(text)); err == nil {
				mutex.Lock()
				defer mutex.Unlock()
				all[pod] = numbers
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return all
}

// parse reads the agent's metrics.
func parse(text io.Reader) (podNumbers, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	numbers := podNumbers{}
	each := func(family string, add func(n *diskNumbers, cache string, value float64)) {
		for _, m := range families[family].GetMetric() {
			disk := label(m, "disk")
			n := numbers[disk]
			add(&n, label(m, "cache"), m.GetGauge().GetValue()+m.GetCounter().GetValue())
			numbers[disk] = n
		}
	}
	each("cachenode_disk_size_bytes", func(n *diskNumbers, _ string, v float64) { n.size = v })
	each("cachenode_disk_used_bytes", func(n *diskNumbers, _ string, v float64) { n.usedBytes = v })
	each("cachenode_requests_total", func(n *diskNumbers, cache string, v float64) {
		switch cache { // what went past the disk was counted one by one, the others were sampled
		case metrics.OtherDisk, metrics.Uncached:
			return
		}
		n.requests += v
		if metrics.IsHit(cache) {
			n.hits += v
		}
	})
	return numbers, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
