// The CustomResourceDefinitions of the Prometheus operator, which this module has as examples: see hack/monitoring-crds.
module github.com/cachenode/cachenode-operator/hack/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
