package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/controllers"
	agentmetrics "github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/purgeapi"
)

// metric contains the name, the labels and the help text of a metric.
type metric struct{ name, labels, help string }

// description matches the text that prometheus.Desc.String returns. A prometheus.Desc does not export its parts, so
// this text is the only way to read them.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", ` +
	`constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// described returns the metrics of the collectors whose names begin with cachenode_, sorted by name.
func described(collectors ...prometheus.Collector) []metric {
	var list []metric
	for _, c := range collectors {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descriptions)
			close(descriptions)
		}()
		for d := range descriptions {
			parts := description.FindStringSubmatch(d.String())
			if parts == nil {
				log.Fatalf("a description of another form: %s", d)
			}
			if strings.HasPrefix(parts[1], "cachenode_") {
				list = append(list, metric{parts[1], strings.ReplaceAll(parts[3], ",", ", "), parts[2]})
			}
		}
	}
	slices.SortFunc(list, func(a, b metric) int { return strings.Compare(a.name, b.name) }) // a registry has no order
	return list
}

func agentMetrics() []metric {
	registry, ok := agentmetrics.New(clock.RealClock{}, nil, nil).Gatherer().(prometheus.Collector)
	if !ok {
		log.Fatal("the agent's registry does not describe its metrics")
	}
	return described(registry, &agentmetrics.NginxCollector{})
}

func operatorMetrics() []metric { return described(&controllers.Collector{}) }

func purgeAPIMetrics() []metric { return described(purgeapi.NewMetrics()) }

func metrics() {
	code := strings.NewReplacer("'", "`")
	_, _ = code.WriteString(os.Stdout, `<!-- Written by hack/generate/reference from the code: make generate. -->
# Metrics

For those who monitor cache pods and the operator: every metric with its labels and its meaning.
[Monitor](../howto/monitor.md) says how to scrape them.
The [runbooks](../runbooks/README.md) explain the alerts on them.

## Of a cache pod

The agent of each pod serves metrics on port 8083 ('metrics'), path '/metrics', in plain text.
Metrics of requests come from a sample.
nginx reports 'spec.monitoring.requestSampling' percent of the requests to the agent, and all that bypassed their disk.
Reports that come faster than the agent reads are lost, and nginx never waits for the agent.

`)
	rows(agentMetrics())
	_, _ = code.WriteString(os.Stdout, `
nginx does not report evictions; 'cachenode_cache_files' shows what is left.
The metrics of the Go runtime and of the process describe the agent.

## Of the operator

The operator serves metrics on port 8443 ('metrics') over TLS, to clients that the API server authenticates.
They need the right to get the path '/metrics', which the ClusterRole '...-metrics-reader' of the chart grants.
The operator also serves those of controller-runtime, such as 'controller_runtime_reconcile_total',
'workqueue_depth' and 'rest_client_requests_total'.

`)
	rows(operatorMetrics())
	_, _ = code.WriteString(os.Stdout, `
## Of the HTTP endpoint for purges

The [endpoint](../howto/purge-over-http.md) serves metrics on port 8444 ('metrics') over TLS.
Clients need the same right as for those of the operator.

`)
	rows(purgeAPIMetrics())
}

func rows(list []metric) {
	fmt.Print("| metric | labels | meaning |\n|---|---|---|\n")
	for _, m := range list {
		fmt.Printf("| `%s` | %s | %s |\n", m.name, m.labels, m.help)
	}
}
