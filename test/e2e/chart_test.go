package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// release, operatorNamespace and chart have the same values as in test/cluster/install.
const (
	release           = "cachenode-operator"
	operatorNamespace = "cachenode-system"
	chart             = "../../charts/cachenode-operator"
)

// helm runs helm in the operator's namespace.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryHelm(args...)
	must(t, err)
	return out
}

func tryHelm(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("helm", append([]string{"--namespace", operatorNamespace}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// operatorKubectl runs kubectl in the operator's namespace and returns its output.
func operatorKubectl(t *testing.T, args ...string) string {
	t.Helper()
	return kubectl(t, "", append([]string{"--namespace", operatorNamespace}, args...)...)
}

// install installs the operator from a chart, or upgrades the operator to this chart. It uses the operator image of the
// tests.
func install(t *testing.T, from string, sets ...string) {
	t.Helper()
	args := []string{
		"upgrade", "--install", release, from, "--wait", "--timeout", "5m",
		"--set", "image.repository=localhost/cachenode-operator,image.tag=test,image.pullPolicy=Never",
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	helm(t, args...)
}

// restoresOperator registers a cleanup. When the test ends, the cleanup installs the operator in the way that other
// tests expect.
func restoresOperator(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		// kubectl delete fails if a test has ended without the CRDs, and kubectl wait if there is no claim.
		_, _ = tryKubectl("", "delete", "cachenode", name, "--ignore-not-found", "--timeout=5m")
		_, _ = tryKubectl("", "wait", "--for=delete", "persistentvolumeclaims", "--all", "--timeout=5m")
		execute(t, "../cluster/install")
	})
}

// execute runs a command and returns its standard output.
func execute(t *testing.T, command string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(command, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// TestChart uninstalls the operator, installs the first version of the chart, upgrades it, and rolls it back. During
// all these steps, a CacheNode serves requests.
func TestChart(t *testing.T) {
	cluster(t, "recycle")
	s := newSuite(t)
	restoresOperator(t)
	kubectl(t, "", "apply", "-f", apart(t)) // the first version knows only pods that do not share keys
	s.current(t)
	before := uids(s.cachePods(t))
	load := s.load(t, objects[:150])
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(operatorKubectl(t, "get", "all", "-o", "wide"))
		}
	})
	s.inOrder(t, []step{
		{"uninstalling the operator leaves CacheNodes and their pods", uninstalls},
		{"the first version of the chart reconciles them", func(t *testing.T, s *suite) {
			install(t, firstChart(t))
			s.seesTo(t, "11m")
		}},
		{"an upgrade adds the new fields", upgrades},
		{"a rollback removes them", rollsBack},
		{"helm test succeeds", func(t *testing.T, _ *suite) {
			install(t, chart)
			// helm test also succeeds if a chart has no tests, so the output must name the test.
			out := helm(t, "test", release, "--timeout", "5m")
			if !strings.Contains(out, release+"-check") || !strings.Contains(out, "Succeeded") {
				t.Errorf("helm test says:\n%s", out)
			}
		}},
		{"what the cluster lacks is named", namesWhatIsMissing},
		{"with watchNamespaces the operator has no rights in other namespaces", watchesNamespaces},
	})
	checkLoad(t, load.more(t, 300).end())
	for pod, id := range uids(s.cachePods(t)) {
		if before[pod] != id {
			t.Errorf("%s was restarted: was %s, is %s", pod, before[pod], id)
		}
	}
}

// seesTo checks that an operator is at work: it makes an edit that needs a reload, and waits until all pods run the new
// configuration.
func (s *suite) seesTo(t *testing.T, validity string) {
	t.Helper()
	must(t, edit(`{"spec":{"cache":{"valid":[{"status":[200],"for":"`+validity+`"}]}}}`))
	s.current(t)
}

// namesWhatIsMissing requests a PodMonitor, for which there is no CustomResourceDefinition, and a namespace that does
// not exist. The error must name what is missing.
func namesWhatIsMissing(t *testing.T, _ *suite) {
	for set, want := range map[string]string{
		"metrics.podMonitor.enabled=true": "metrics.podMonitor.enabled: this cluster has no PodMonitor",
		"watchNamespaces={nowhere}":       "kubectl create namespace nowhere",
	} {
		_, err := tryHelm("upgrade", "--install", release, chart, "--dry-run=server", "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, want %q", set, err, want)
		}
	}
}

func uninstalls(t *testing.T, s *suite) {
	helm(t, "uninstall", release, "--wait")
	if out := operatorKubectl(t, "get", "deployments", "-o", "name"); out != "" {
		t.Errorf("the operator is still there: %s", out)
	}
	if n := len(s.cachePods(t)); n != 3 {
		t.Errorf("%d pods, want 3", n)
	}
	for _, r := range s.fetch(t, 0, objects[:20], "-base", base) {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Path, r.Error)
		}
	}
}

// firstChart unpacks version 0.1.0 of the chart, removes a field from the CRD in it, and returns the chart's folder.
// The field exists in the current CRD.
func firstChart(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	execute(t, "tar", "-xzf", "testdata/cachenode-operator-0.1.0.tgz", "-C", dir)
	file := filepath.Join(dir, "cachenode-operator/files/crds/cachenode.io_cachenodes.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	var definition map[string]any
	must(t, yaml.Unmarshal(text, &definition))
	version := definition["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	spec := schema["properties"].(map[string]any)["spec"].(map[string]any)
	pod := spec["properties"].(map[string]any)["pod"].(map[string]any)["properties"].(map[string]any)
	if pod["priorityClassName"] == nil {
		t.Fatal("there is no spec.pod.priorityClassName to take away")
	}
	delete(pod, "priorityClassName")
	text, err = yaml.Marshal(definition)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	return filepath.Join(dir, "cachenode-operator")
}

// hasField returns whether the API server knows the field that firstChart removes.
func hasField() bool {
	_, err := tryKubectl("", "explain", "cachenode.spec.pod.priorityClassName")
	return err == nil
}

// awaitField waits until the API server knows the field that firstChart removes. If want is false, it waits until the
// API server does not know this field.
func awaitField(t *testing.T, want bool) {
	t.Helper()
	within(t, 30*time.Second, func() string {
		if hasField() != want {
			return fmt.Sprintf("the API server knows the field: %t", !want)
		}
		return ""
	})
}

func upgrades(t *testing.T, s *suite) {
	if hasField() {
		t.Fatal("the first version has the field that the upgrade is to bring")
	}
	install(t, chart)
	awaitField(t, true)
	s.seesTo(t, "12m")
}

func rollsBack(t *testing.T, s *suite) {
	helm(t, "rollback", release, "1", "--wait", "--timeout", "5m")
	awaitField(t, false)
	s.seesTo(t, "13m")
}

// watchesNamespaces creates a CacheNode in a namespace that the operator does not watch. The operator must not
// reconcile this CacheNode, and must have no rights in its namespace.
func watchesNamespaces(t *testing.T, s *suite) {
	const other = "e2e-other"
	ns := &corev1.Namespace{}
	ns.Name = other
	must(t, client.IgnoreAlreadyExists(s.Create(context.Background(), ns)))
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", other, "--wait") })
	install(t, chart, "watchNamespaces={"+namespace+"}", "replicas=2", "podDisruptionBudget.enabled=true")
	sample, err := os.ReadFile("../../config/samples/cachenode.yaml")
	must(t, err)
	kubectl(t, string(sample), "--namespace", other, "apply", "-f", "-")
	s.seesTo(t, "14m")
	const generation = "jsonpath={.status.observedGeneration}"
	if seen := kubectl(t, "", "--namespace", other, "get", "cachenode", name, "-o", generation); seen != "-1" {
		t.Errorf("observedGeneration of a CacheNode in a namespace that is not watched is %s, want -1", seen)
	}
	account := "--as=system:serviceaccount:" + operatorNamespace + ":" + release
	for where, want := range map[string]bool{namespace: true, other: false, "kube-system": false} {
		// kubectl fails if the answer is "no".
		out, _ := tryKubectl("", "auth", "can-i", "list", "secrets", account, "--namespace", where)
		if _, err := tryKubectl("", "auth", "can-i", "list", "secrets", account, "--namespace", where); (err == nil) != want {
			t.Errorf("the operator may list Secrets in %s: %q, want %t", where, out, want)
		}
	}
}
