package purgeapi

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the metrics of the HTTP endpoint for purges.
type Metrics struct {
	requests *prometheus.CounterVec
	batches  prometheus.Histogram
}

// NewMetrics returns metrics that are not registered.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cachenode_purge_api_requests_total", Help: "Requests, by the status code of the answer.",
		}, []string{"code"}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cachenode_purge_api_batch_requests",
			Help:    "Requests that were gathered into a CachePurge.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.requests.Describe(out)
	m.batches.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.requests.Collect(out)
	m.batches.Collect(out)
}

func (m *Metrics) count(code int) { m.requests.WithLabelValues(strconv.Itoa(code)).Inc() }
