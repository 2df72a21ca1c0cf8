package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NginxCollector reads nginx's stub_status at each scrape. Its metrics are exact, not sampled.
type NginxCollector struct {
	URL    string
	Client *http.Client
}

var (
	descNginxRequests = prometheus.NewDesc("cachenode_nginx_requests_total",
		"All requests that nginx has received, including probes and the memory tier's own. "+
			"The count starts at 0 when nginx starts.", nil, nil)
	descNginxConnections = prometheus.NewDesc("cachenode_nginx_connections",
		"Client connections by state: reading, writing or waiting.", []string{"state"}, nil)
)

// Describe implements prometheus.Collector.
func (c *NginxCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descNginxRequests
	out <- descNginxConnections
}

// Collect implements prometheus.Collector. It returns nothing while nginx does not answer.
func (c *NginxCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := c.get(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(descNginxRequests, prometheus.CounterValue, s.requests)
	for state, value := range map[string]float64{"reading": s.reading, "writing": s.writing, "waiting": s.waiting} {
		out <- prometheus.MustNewConstMetric(descNginxConnections, prometheus.GaugeValue, value, state)
	}
}

type stubStatus struct{ requests, reading, writing, waiting float64 }

func (c *NginxCollector) get(ctx context.Context) (s stubStatus, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/stub_status", nil)
	if err != nil {
		return s, err
	}
	response, err := c.Client.Do(request)
	if err != nil {
		return s, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return s, err
	}
	return parseStubStatus(string(text))
}

// parseStubStatus parses the page of ngx_http_stub_status_module.
func parseStubStatus(text string) (s stubStatus, err error) {
	var active, accepts, handled float64
	_, err = fmt.Sscanf(text,
		"Active connections: %g \nserver accepts handled requests\n %g %g %g \nReading: %g Writing: %g Waiting: %g",
		&active, &accepts, &handled, &s.requests, &s.reading, &s.writing, &s.waiting)
	return s, err
}
