package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const chart = "../../../charts/cachenode-operator/files/"

// TestMetricsExist checks that the code has the metrics that alerts and dashboards name.
func TestMetricsExist(t *testing.T) {
	var known []string
	for _, m := range append(agentMetrics(), operatorMetrics()...) {
		known = append(known, m.name)
	}
	files, err := filepath.Glob(chart + "dashboards/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d dashboards, want 2: %v", len(files), err)
	}
	name := regexp.MustCompile(`\bcachenode_[a-z0-9_]+`)
	for _, file := range append(files, chart+"alerts.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) < 10 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, m := range found {
			if !slices.Contains(known, m) && !slices.Contains(known, strings.TrimSuffix(m, "_bucket")) {
				t.Errorf("%s names %s, which the code does not have", file, m)
			}
		}
	}
}

// TestEachAlertHasARunbook checks that each alert has a runbook, and that each runbook belongs to an alert.
func TestEachAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile(chart + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("../../../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{"README.md": true}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			page := strings.ToLower(rule.Alert) + ".md"
			pages[page] = true
			content, err := os.ReadFile("../../../docs/runbooks/" + page)
			if err != nil || !strings.HasPrefix(string(content), "# "+rule.Alert+"\n") {
				t.Errorf("%s has no runbook: %v", rule.Alert, err)
			}
			if !strings.Contains(string(index), "["+rule.Alert+"]("+page+")") {
				t.Errorf("%s is not in docs/runbooks/README.md", rule.Alert)
			}
		}
	}
	files, err := os.ReadDir("../../../docs/runbooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !pages[f.Name()] {
			t.Errorf("docs/runbooks/%s is for no alert", f.Name())
		}
	}
}

// TestFieldsExist checks that the API has the fields that runbooks, concepts and how-tos name.
func TestFieldsExist(t *testing.T) {
	reference, err := os.ReadFile("../../../docs/reference/cachenode.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	first := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `((?:spec|status)\\.[^`]+)`")
	for _, m := range row.FindAllStringSubmatch(string(reference), -1) {
		path := m[1]
		known[path], known[strings.TrimPrefix(path, "spec.")] = true, true
		first[strings.TrimSuffix(strings.SplitN(strings.TrimPrefix(path, "spec."), ".", 2)[0], "[]")] = true
	}
	field := regexp.MustCompile("`((?:spec\\.|status\\.)?[a-zA-Z]+(?:\\[\\])?" +
		"(?:\\.[a-z][a-zA-Z]*(?:\\[\\])?)+)(?::[^`]*)?`")
	count := 0
	for _, folder := range []string{"runbooks", "concepts", "howto"} {
		files, err := filepath.Glob("../../../docs/" + folder + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range field.FindAllStringSubmatch(string(text), -1) {
				name := strings.TrimSuffix(m[1], "[]")
				path := strings.TrimPrefix(strings.TrimPrefix(name, "spec."), "status.")
				begin := strings.TrimSuffix(strings.SplitN(path, ".", 2)[0], "[]")
				if !first[begin] || strings.HasPrefix(name, "metrics.") {
					continue // a file, a host, or a value of the chart
				}
				count++
				if !known[name] && !isKubernetes(name) {
					t.Errorf("%s names %s, which the API does not have", file, m[1])
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("%d fields were looked up, want more", count)
	}
}

// isKubernetes reports whether a field is defined by Kubernetes, such as spec.pod.resources.limits.memory.
func isKubernetes(name string) bool {
	return slices.ContainsFunc(kubernetes, func(prefix string) bool {
		return strings.HasPrefix(name, strings.TrimPrefix(prefix, "spec.")+".") || strings.HasPrefix(name, prefix+".")
	})
}
