SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
chart := charts/cachenode-operator

##@ Everyday
.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Check what is needed from the system; install it on Debian and Ubuntu as root.
	@hack/setup

.PHONY: build
build: ## Build manager, agent, purge-api and kubectl-cachenode, all static, into bin/.
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/...
	cp cmd/kubectl-cachenode/kubectl_complete-cachenode bin/

.PHONY: demo
demo: ## Start a cluster with the operator and a CacheNode, fetch objects and show where they are cached.
	@test/demo/demo

.PHONY: clean
clean: ## Remove what a build leaves in the tree.
	rm -rf bin dist

.PHONY: release-dry-run
release-dry-run: ## All that a release does but the upload, on the native cluster: artefacts twice, signatures, installation, upgrade. VERSION_OF=1.2.3.
	@hack/release/dry-run $(VERSION_OF)

##@ Generated files
.PHONY: generate
generate: ## Write all generated files: deep copies, CRD, RBAC, the chart's schema and README, the reference, the benchmarks' tables.
	@tools=$$(hack/build-tool tools); set -x; \
	$$tools/controller-gen object paths=./api/...; \
	$$tools/controller-gen crd:allowDangerousTypes=false paths=./api/... output:crd:dir=config/crd/bases; \
	for kind in cachenodes cachepurges cachepolicies; do go run ./hack/generate/bounds config/crd/bases/cachenode.io_$$kind.yaml; done; \
	$$tools/controller-gen rbac:roleName=cachenode-operator paths=./controllers/... output:rbac:dir=config/rbac
	go run ./hack/generate/gatewayapi >internal/schema/gatewayapi.json
	@hack/generate/chart
	for page in cachenode cachepurge cachepolicy plugin metrics headers logs; do go run ./hack/generate/reference $$page >docs/reference/$$page.md; done
	go run -C test/bench ./page ../../docs/benchmarks ../../README.md
	sed '1s/.*/# Values of the Helm chart/' charts/cachenode-operator/README.md >docs/reference/chart.md

.PHONY: golden
golden: ## Write the golden files.
	go test ./internal/nginx/cache ./internal/manifest -update

.PHONY: fmt
fmt: ## Format the Go code.
	$$(hack/build-tool tools)/gofumpt -w $$(git ls-files '*.go' | grep -v zz_generated)

##@ Tests
.PHONY: test
test: ## The checks for every commit: verify, lint, unit, envtest, chart and end to end on a real cluster.
	@hack/timed table $(MAKE) --no-print-directory test-steps

# End-to-end tests mostly wait. Both parts need the tools of the cluster.
.PHONY: test-steps
test-steps:
	@hack/timed setup hack/setup
	@hack/timed verify $(MAKE) verify
	@hack/timed cluster hack/build-tool cluster >/dev/null
	@hack/side-by-side "code=nice -n 5 $(MAKE) test-code" "e2e=$(MAKE) test-e2e"

.PHONY: test-code
test-code: ## What needs no cluster.
	@for step in lint test-chart test-monitoring test-docs test-image test-http test-unit; do hack/timed $$step $(MAKE) $$step; done

.PHONY: licences
licences: ## List the licences of what the programs are built of; one that is not known fails.
	@$$(hack/build-tool licences)/licences

.PHONY: house
house: ## Print the numbers by which the house is kept small: methods, fields, who knows a site, lines; AT=COMMIT, those of a commit.
	@go run ./hack/house $(if $(AT),-at $(AT))

.PHONY: layers
layers: ## List the packages by layer with what they import; an import that points up fails.
	@go run ./hack/layers

.PHONY: verify
verify: ## Check that generated files are in step with their sources.
	@hack/verify

.PHONY: lint
lint: ## Lint Go and shell code.
	$$(hack/build-tool golangci-lint)/golangci-lint run --allow-parallel-runners
	cd test/bench && $$(../../hack/build-tool golangci-lint)/golangci-lint run --allow-parallel-runners --config ../../.golangci.yml
	shellcheck -S warning $$(git ls-files | xargs grep -lE '^#!.*bash')
	@hack/workflows
	@hack/prose/check
	@go run ./hack/house -words
	$(MAKE) --no-print-directory licences layers >/dev/null

# With the real nginx and a real API server. Most of these tests wait, so six of a package run at a time.
real := NGINX_ROOT=$$(hack/nginx-root) KUBEBUILDER_ASSETS=$$(hack/envtest-assets)
unit := $(real) hack/in-memory go test -timeout 40m -parallel 6
units := go list ./... | grep -vE '/test/(e2e|chart|http)$$'
# Packages whose own code starts goroutines, but for controllers, internal/agent/purge and internal/agent/index: these take
# minutes of processor time more under the race detector, so they run under it in make test-race alone (CI, make test-all).
raced := (cmd/(agent|purge-api)|internal/(agent(/(disk|metrics|reload|resolver|server|sweep))?|agents|agentapi/agentclient|purgeapi(/.*)?|cli(/.*)?)|test/lab)

.PHONY: test-unit
test-unit: ## Unit tests, with the real nginx and a real API server, some under the race detector.
	$(unit) -race $$($(units) | grep -E '/$(raced)$$')
	$(unit) $$($(units) | grep -vE '/$(raced)$$')
	$(real) hack/in-memory go -C test/bench test -timeout 40m -skip '^TestBenchmarkChecksItself$$' ./...

.PHONY: test-race
test-race: ## All of them under the race detector, a quarter of an hour.
	$(unit) -count=1 -race $$($(units))

.PHONY: test-long
test-long: ## Unit tests that wait for nginx's own times, or judge a disk, and short forms of benchmarks.
	CACHENODE_TEST_LONG=1 $(unit) -count=1 -run '^TestDeadDisk$$' ./internal/nginx/cache
	CACHENODE_TEST_LONG=1 $(unit) -count=1 ./internal/shard
	CACHENODE_TEST_LONG=1 go -C test/bench test -count=1 -run '^TestDisksThatSeek$$' ./caches
	$(MAKE) --no-print-directory test-bench

.PHONY: test-bench
test-bench: ## Short forms of bench-article and bench-purge, which check what is measured and no times. Three minutes.
	$(real) hack/in-memory go -C test/bench test -count=1 -timeout 40m -run '^TestBenchmarkChecksItself$$' ./caches ./purge

.PHONY: test-conformance
test-conformance: ## The conformance suite of the Gateway API, profile GATEWAY-HTTP, on the test cluster. Half an hour; report in dist/results.
	@test/conformance/run

.PHONY: test-all
test-all: ## What make test leaves out, because it is long or judges rates. Results are in dist/results. PARTS="race long" takes some.
	@hack/all $(PARTS)

.PHONY: test-chart
test-chart: ## Lint and render the chart; check what comes out against Kubernetes' schemas.
	@test/chart/check

.PHONY: test-monitoring
test-monitoring: ## Check the chart's alerts with promtool, fire each of them, and hold alerts and dashboards to the metrics that there are.
	@test/monitoring/check

.PHONY: test-image
test-image: ## Build the Dockerfile where Docker answers, and look at the image.
	@test/image/check

.PHONY: test-http
test-http: ## Checks of a public suite for HTTP caches (http-cache-tests), where Node and npm are. CACHE_TESTS=DIR takes a checkout of it.
	@test/http/run

.PHONY: test-docs
test-docs: docs ## Build the docs; a broken link fails.

.PHONY: docs
docs: ## Build the docs as a site, into dist/docs.
	@hack/docs

.PHONY: test-e2e
test-e2e: ## End to end on a real cluster, which is started if there is none and left running.
	@test/e2e/all

.PHONY: soak
soak: ## What the tests do once, for LENGTH (3h): random requests, purges, edits under load, fuzzing. It goes on where it was; the report is in dist/soak.
	@hack/soak $(LENGTH)

.PHONY: test-random
test-random: ## Random requests against a model of a cache, for CACHENODE_TEST_DIFFERENTIAL (10,000 requests).
	$(unit) -count=1 -timeout 3h -run '^TestDifferential$$' ./internal/nginx/cache

.PHONY: fuzz
fuzz: ## Fuzz what quotes and parses, a minute each.
	@hack/fuzz

.PHONY: bench
bench: ## Benchmarks of the pure packages, and of nginx (test/bench).
	KUBEBUILDER_ASSETS=$$(hack/envtest-assets) go test -run '^$$' -bench . -benchmem ./internal/... ./controllers/...
	@test/bench/disk-check
	@test/bench/agent

.PHONY: bench-article
bench-article: ## The article's experiment: 4 MB objects, random and constant load, against nginx without pools. Half an hour.
	test/bench/run caches -servers nginx,article,cachenode -out docs/benchmarks article

all_servers := nginx,article,article-prepared,cachenode-usual,cachenode,varnish,trafficserver

.PHONY: bench-peers
bench-peers: ## nginx by hand, the article's configuration, the operator's, Varnish and Traffic Server on the same disks. Hours.
	test/bench/run caches -shares 0.5,0.8 -cases fast- -out docs/benchmarks fast
	test/bench/run caches -servers nginx,article,cachenode,varnish,varnish-malloc,trafficserver -cases memory- -out docs/benchmarks fast
	test/bench/run caches -servers $(all_servers) -out docs/benchmarks peers
	test/bench/run caches -used -out docs/benchmarks zipf

.PHONY: bench-tuning
bench-tuning: ## The operator's configuration against itself with one thing otherwise: threads, buffers, workers ... An hour.
	test/bench/run caches -out docs/benchmarks tuning

.PHONY: bench-disks
bench-disks: ## What a hit costs a disk that is prepared in one way or another. A quarter of an hour.
	test/bench/run disks -out docs/benchmarks

.PHONY: bench-shard
bench-shard: ## Keys that move and how even the shares are, against percentages by hand and modulo; cost of the ranges. Two minutes.
	test/bench/run shard -out docs/benchmarks

.PHONY: bench-miss
bench-miss: ## What the gateway between caches and origin costs a MISS. Three minutes.
	@test/bench/miss

.PHONY: bench-routes
bench-routes: ## What 1 to 2,000 HTTPRoutes cost the operator and nginx, and a HIT. A quarter of an hour.
	@test/bench/routes/sites

.PHONY: bench-fleet
bench-fleet: ## What a hop between pods costs, beside Varnish and Traffic Server. A quarter of an hour.
	test/bench/run fleet -out docs/benchmarks
	test/bench/run fleet -pods 3,10,30,100 -out docs/benchmarks

.PHONY: bench-purge
bench-purge: ## Purges beside Varnish and Traffic Server, many a second, and what the index behind them costs. Three quarters of an hour.
	test/bench/run purge -out docs/benchmarks urls rate cost
	test/bench/run purge -rounds 3 -out docs/benchmarks tag prefix rebuild

.PHONY: bench-ranges
bench-ranges: ## How long a range at the end of a large object takes that is not in the cache, with and without slices. Three minutes.
	@test/bench/ranges

.PHONY: bench-control
bench-control: ## Reconcile and render; 1,000 CacheNodes; edits on the cluster. Half an hour at most. Results are in dist/results.
	KUBEBUILDER_ASSETS=$$(hack/envtest-assets) go test -run '^$$' -bench 'Reconcile|Render|NewPlan' -benchmem ./controllers ./internal/nginx/cache ./internal/shard
	KUBEBUILDER_ASSETS=$$(hack/envtest-assets) test/bench/run control -out dist/results
	CACHENODE_TEST_EDITS=50 test/e2e/run -run '^TestFaults$$/^many'

##@ Cluster for tests and demo (CLUSTER=native, the default, or CLUSTER=kind; set it for each target)
.PHONY: cluster-up
cluster-up: ## Start a three-node Kubernetes with three real disks a node.
	@test/cluster/cluster up

.PHONY: cluster-down
cluster-down: ## End it and remove what it made; without CLUSTER, clusters of both kinds.
	@test/cluster/cluster down

.PHONY: cluster-kubeconfig
cluster-kubeconfig: ## Print the path of its kubeconfig.
	@test/cluster/cluster kubeconfig
