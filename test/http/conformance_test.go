// Package http runs http-cache-tests, a public suite of checks for HTTP caches. It checks nginx with the configuration
// of a CacheNode with default settings, and plain nginx for comparison.
package http

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

//go:embed plain.conf
var plain string

//go:embed known.yaml
var knownText []byte

const cacheNodeText = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 8000}]}
  memoryTier: {enabled: true, size: 64Mi}
`

// check is a check of the suite.
type check struct {
	// Kind is required (by the RFC), optimal or check (a question without a right answer).
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Why is the reason why the check did not pass.
	Why string `json:"why"`
}

// TestConformance fails if a required check fails twice and known.yaml contains no reason for it. It also logs which
// checks only CacheNode passes, and which checks only plain nginx passes.
func TestConformance(t *testing.T) {
	suite := os.Getenv("HTTP_CACHE_TESTS")
	if suite == "" {
		t.Skip("HTTP_CACHE_TESTS is not set: make test-http sets it if Node and npm are there")
	}
	known := map[string]string{}
	if err := yaml.Unmarshal(knownText, &known); err != nil {
		t.Fatal(err)
	}
	var ours, plainly map[string]check
	t.Run("run", func(t *testing.T) {
		t.Run("CacheNode", func(t *testing.T) { t.Parallel(); ours = run(t, suite, rendered(t)) })
		t.Run("plain nginx", func(t *testing.T) { t.Parallel(); plainly = run(t, suite, plain) })
	})
	if len(ours) < 300 || len(plainly) != len(ours) {
		t.Fatalf("%d and %d checks ran", len(ours), len(plainly))
	}
	if unexpected(ours, known) {
		// Many checks depend on times of some seconds, and a busy machine can cause delays. So a check counts as failed only
		// if it fails twice.
		for id, c := range run(t, suite, rendered(t)) {
			if c.Passed {
				ours[id] = c
			}
		}
	}
	t.Logf("CacheNode passes %s", summary(ours))
	t.Logf("plain nginx passes %s", summary(plainly))
	for _, id := range ids(ours) {
		c := ours[id]
		switch reason := reasonFor(known, id); {
		case c.Passed && !plainly[id].Passed:
			t.Logf("gained: %s (%s)", id, c.Kind)
		case c.Passed:
		case c.Kind == "required" && reason == "":
			t.Errorf("failed: %s has no reason in known.yaml: %s: %s", id, c.Name, c.Why)
		case plainly[id].Passed:
			t.Logf("lost: %s (%s): %s: %s", id, c.Kind, c.Name, c.Why)
		}
	}
	for pattern, reason := range known {
		if !slices.ContainsFunc(ids(ours), func(id string) bool { return matches(pattern, id) && !ours[id].Passed }) {
			t.Logf("%s passes in this version of the suite, though known.yaml says: %s", pattern, reason)
		}
	}
}

// unexpected reports whether a required check fails without a reason in known.yaml.
func unexpected(checks map[string]check, known map[string]string) bool {
	return slices.ContainsFunc(ids(checks), func(id string) bool {
		return checks[id].Kind == "required" && !checks[id].Passed && reasonFor(known, id) == ""
	})
}

// reasonFor returns the reason that known.yaml has for a check; "" if there is none.
func reasonFor(known map[string]string, id string) string {
	for pattern, reason := range known {
		if matches(pattern, id) {
			return reason
		}
	}
	return ""
}

func matches(pattern, id string) bool {
	is, err := path.Match(pattern, id)
	return err == nil && is
}

// run runs the suite against an nginx with a configuration.
func run(t *testing.T, suite, config string) map[string]check {
	t.Helper()
	n := nginxtest.New(t)
	n.Mkdir(layout.MemoryTierDir)
	n.Configure(config, "disk1", "disk2", "disk3")
	n.Start()
	cmd := n.Inside("node", "--no-warnings", "run.mjs", suite, "8000", "http://127.0.0.1:8080")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errors.String())
	}
	checks := map[string]check{}
	if err := json.Unmarshal(out, &checks); err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	return checks
}

func rendered(t *testing.T) string {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(cacheNodeText))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	before := effective.Before{Serving: effective.WithTier, Routing: v1alpha1.RoutingLocal}
	wanted, err := revision.Of(effective.Of(cacheNode, before), revision.Outside{ClusterDomain: "cluster.local"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := cache.Render(cache.Input{Revision: wanted, Facts: cache.Facts{Cores: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return config.Text
}

func summary(checks map[string]check) string {
	passed, all := map[string]int{}, map[string]int{}
	for _, c := range checks {
		all[c.Kind]++
		if c.Passed {
			passed[c.Kind]++
		}
	}
	var parts []string
	sum := 0
	for _, kind := range []string{"required", "optimal", "check"} {
		parts = append(parts, fmt.Sprintf("%d of %d %s", passed[kind], all[kind], kind))
		sum += passed[kind]
	}
	return fmt.Sprintf("%d of %d: %s", sum, len(checks), strings.Join(parts, ", "))
}

func ids(checks map[string]check) []string {
	var list []string
	for id := range checks {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}
