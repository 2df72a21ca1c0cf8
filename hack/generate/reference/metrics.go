package main

import (
	"fmt"
	"log"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cachenode/cachenode-operator/controllers"
	agentmetrics "github.com/cachenode/cachenode-operator/internal/agent/metrics"
)

// metric is the description of a metric in the code.
type metric struct{ name, labels, help string }

// description is how prometheus.Desc prints itself. There is no other way to get its parts.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", ` +
	`constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// described are the metrics of collectors that are ours.
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
	registry, ok := agentmetrics.New(nil, nil).Gatherer().(prometheus.Collector)
	if !ok {
		log.Fatal("the agent's registry does not describe its metrics")
	}
	return described(registry, &agentmetrics.NginxCollector{})
}

func operatorMetrics() []metric { return described(&controllers.Collector{}) }

func metrics() {
	fmt.Print(`<!-- Written by hack/generate/reference from the code: make generate. -->
# Metrics

## Of a cache pod

Each pod's agent serves them on port 8083 (` + "`metrics`" + `), path ` + "`/metrics`" + `, in plain text. ` +
		`What is counted from requests is a sample:
nginx reports ` + "`spec.monitoring.requestSampling`" + ` percent of them to the agent, and all that went past ` +
		`their disk. Reports that come faster
than the agent reads are lost, and nginx never waits for it.

`)
	rows(agentMetrics())
	fmt.Print(`
nginx does not tell its evictions; ` + "`cachenode_cache_files`" + ` shows what is left. ` +
		`The Go runtime's and the process's metrics are those of
the agent.

## Of the operator

It serves them on port 8443 (` + "`metrics`" + `) over TLS, to clients that the API server authenticates ` +
		`and that may get the path ` + "`/metrics`" + ` (the chart's
ClusterRole ` + "`...-metrics-reader`" + `). Besides those of controller-runtime ` +
		"(`controller_runtime_reconcile_total`, `workqueue_depth`, `rest_client_requests_total`" + ` ...):

`)
	rows(operatorMetrics())
	fmt.Print("\nAlerts on them have [runbooks](../runbooks/README.md).\n")
}

func rows(list []metric) {
	fmt.Print("| metric | labels | meaning |\n|---|---|---|\n")
	for _, m := range list {
		fmt.Printf("| `%s` | %s | %s |\n", m.name, m.labels, m.help)
	}
}
