package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// TestEndToEnd follows the CacheNode of the sample from its creation to its deletion. Each subtest can run alone.
func TestEndToEnd(t *testing.T) {
	cluster(t, "recycle")
	s := newSuite(t)
	steps.Run(t, "the sample becomes ready", func() { becomesReady(t, s) })
	for _, step := range []step{
		{"applying the same manifest again changes nothing", appliesTwice},
		{"objects are served correctly, each from its disk in the plan", servesByPlan},
		{"an object that is requested often is served from memory", servesFromMemory},
		{"a deleted pod comes back with its cache warm", comesBackWarm},
		{"an edit reaches every pod without a failed request", editsUnderLoad},
		{"a bad edit is refused and the pods go on", refusesBadEdits},
		{"the plugin shows the state of the cache", pluginTells},
		{"the CacheNode scales", scales},
		{"an autoscaler's replicas are kept", leavesAutoscaler},
		{"the status says why a pod cannot be scheduled", saysWhyPending},
		{"the operator's metrics need authentication", metricsNeedAuthentication},
		{"deleting the CacheNode deletes its objects", deletes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,events", "-o", "wide"))
			t.FailNow()
		}
	}
}

func becomesReady(t *testing.T, s *suite) {
	begun := time.Now()
	kubectl(t, "", "apply", "-f", apart(t))
	cacheNode := s.current(t)
	t.Logf("ready %s after apply\n%s", time.Since(begun).Round(100*time.Millisecond), kubectl(t, "", "get", "cachenode"))
	nodes := map[string]bool{}
	for _, p := range s.cachePods(t) {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 3 || cacheNode.Status.ReadyReplicas != 3 {
		t.Errorf("%d pods are ready, on %d nodes; want three on three", cacheNode.Status.ReadyReplicas, len(nodes))
	}
}

const sample = "../../config/samples/cachenode.yaml"

// apart returns the name of a file with the sample, but with pods that do not share keys and without hand-overs.
// TestRouting tests pods that share keys and hand them over.
func apart(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(sample)
	must(t, err)
	file := filepath.Join(t.TempDir(), "cachenode.yaml")
	local := strings.Replace(string(text), "spec:\n", "spec:\n  routing: {mode: Local, handover: 0s}\n", 1)
	must(t, os.WriteFile(file, []byte(local), 0o600))
	return file
}

// appliesTwice applies the sample again, client-side and server-side. kubectl must report no difference, although the
// API server has added defaults and the operator has written to the object.
func appliesTwice(t *testing.T, s *suite) {
	before, sample := s.cacheNode(t), apart(t)
	// kubectl prints "configured". It sends the list of disks again, because the API server has added defaults to this
	// list. The API server finds no difference.
	kubectl(t, "", "apply", "-f", sample)
	server := []string{"--server-side", "--field-manager=gitops", "--force-conflicts", "-f", sample}
	for range 2 {
		kubectl(t, "", append([]string{"apply"}, server...)...)
	}
	for _, args := range [][]string{{"diff", "-f", sample}, append([]string{"diff"}, server...)} {
		if out, err := tryKubectl("", args...); err != nil || out != "" { // kubectl diff fails if there is a difference
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if after := s.cacheNode(t); after.Generation != before.Generation {
		t.Errorf("the generation went from %d to %d", before.Generation, after.Generation)
	}
	for _, m := range s.cacheNode(t).ManagedFields {
		if m.Manager == naming.FieldManager && m.Subresource != "status" {
			t.Errorf("the operator owns fields beside the status: %s", m.FieldsV1)
		}
	}
}

// scales sets the number of pods to 2, 3 and 1 through the scale subresource, as an autoscaler does. After each step,
// it applies a manifest without replicas. This must not change the number of pods.
func scales(t *testing.T, s *suite) {
	text, err := os.ReadFile(apart(t))
	must(t, err)
	without := strings.Replace(string(text), "  replicas: 3\n", "", 1)
	for _, replicas := range []string{"2", "3", "1"} {
		kubectl(t, "", "scale", "cachenode/"+name, "--replicas="+replicas)
		kubectl(t, without, "apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "-f", "-")
		if got := fmt.Sprint(*s.current(t).Spec.Replicas); got != replicas {
			t.Errorf("%s replicas after the manifest was applied, want the autoscaler's %s", got, replicas)
		}
		for _, r := range s.fetch(t, 0, objects[:20], "-base", base) {
			if r.Error != "" {
				t.Errorf("with %s pods: %s: %s", replicas, r.Path, r.Error)
			}
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	must(t, s.List(context.Background(), claims))
	if len(claims.Items) != 9 {
		t.Errorf("%d claims, want 9: those of pods that were scaled away are retained", len(claims.Items))
	}
}

// leavesAutoscaler creates a HorizontalPodAutoscaler, which scales to its lower bound. Without metrics, it
// does not scale further.
func leavesAutoscaler(t *testing.T, s *suite) {
	text, err := os.ReadFile(apart(t))
	must(t, err)
	kubectl(t, `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: `+name+`}
spec:
  scaleTargetRef: {apiVersion: cachenode.io/v1alpha1, kind: CacheNode, name: `+name+`}
  minReplicas: 2
  maxReplicas: 3
`, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, "", "delete", "hpa", name) })
	within(t, 45*time.Second, func() string { // the autoscaler checks every 15 s
		if *s.cacheNode(t).Spec.Replicas != 2 {
			return "the autoscaler does not scale:\n" + kubectl(t, "", "describe", "hpa", name)
		}
		return ""
	})
	without := strings.Replace(string(text), "  replicas: 3\n", "", 1)
	kubectl(t, without, "apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "-f", "-")
	if got := *s.current(t).Spec.Replicas; got != 2 {
		t.Errorf("%d replicas after the manifest was applied, want the autoscaler's 2", got)
	}
}

// saysWhyPending creates a CacheNode with a disk larger than any volume, so that its pod stays Pending.
func saysWhyPending(t *testing.T, _ *suite) {
	kubectl(t, `apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: too-large}
spec:
  disks: [{name: disk1, size: 500Gi, storageClassName: local-disks}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
  hosts: [too-large.test]
`, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, "", "delete", "cachenode", "too-large") }) // its claim is deleted with it
	const want = ": 0 of 1 pods run it, 0 are ready; too-large-0: not scheduled: "
	const message = `jsonpath={.status.conditions[?(@.type=="Ready")].message}`
	within(t, 30*time.Second, func() string { // the status shows this after 10 s
		said := kubectl(t, "", "get", "cachenode", "too-large", "-o", message)
		if strings.Contains(said, want) && strings.Contains(said, "persistent volumes") {
			return ""
		}
		return fmt.Sprintf("Ready says %q, want %q and the scheduler's words", said, want)
	})
}

// metricsNeedAuthentication requests the operator's metrics in three ways: without a token, with the token of an
// account without the right to read them, and with the token of an account with this right.
func metricsNeedAuthentication(t *testing.T, _ *suite) {
	kubectl(t, "", "create", "serviceaccount", "scraper")
	kubectl(t, "", "create", "serviceaccount", "nobody")
	kubectl(t, "", "delete", "clusterrolebinding", "e2e-scraper", "--ignore-not-found")
	kubectl(t, "", "create", "clusterrolebinding", "e2e-scraper",
		"--clusterrole=cachenode-operator-metrics-reader", "--serviceaccount="+namespace+":scraper")
	t.Cleanup(func() { kubectl(t, "", "delete", "clusterrolebinding", "e2e-scraper") })
	address := portForward(t, "cachenode-system", "service/cachenode-operator-metrics", "8443")

	// The operator creates its own certificate when it starts. The test does not verify this certificate, because it tests
	// only who may read the metrics.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Timeout: 10 * time.Second, Transport: transport}
	wanted := map[string]int{"": http.StatusUnauthorized, "nobody": http.StatusForbidden, "scraper": http.StatusOK}
	for account, want := range wanted {
		request, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
		must(t, err)
		if account != "" {
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(kubectl(t, "", "create", "token", account)))
		}
		response, err := client.Do(request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("account %q gets status %d, want %d", account, response.StatusCode, want)
		}
		if got := strings.Contains(string(body), "controller_runtime_reconcile_total"); got != (want == http.StatusOK) {
			t.Errorf("account %q sees metrics: %t", account, got)
		}
	}
}

// portForward forwards a free local port until the test ends, and returns the address of that port.
func portForward(t *testing.T, namespace, target, port string) string {
	t.Helper()
	cmd := exec.Command("kubectl", "--namespace", namespace, "port-forward", target, ":"+port)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:PORT -> 8443
	must(t, err)
	words := strings.Fields(line)
	if len(words) < 3 {
		t.Fatalf("kubectl port-forward says %q", line)
	}
	return words[2]
}

func deletes(t *testing.T, s *suite) {
	ctx := context.Background()
	kubectl(t, "", "delete", "cachenode", name, "--wait")
	lists := map[string]client.ObjectList{
		"StatefulSets": &appsv1.StatefulSetList{}, "Pods": &corev1.PodList{}, "Services": &corev1.ServiceList{},
		"ConfigMaps": &corev1.ConfigMapList{}, "PodDisruptionBudgets": &policyv1.PodDisruptionBudgetList{},
		"claims": &corev1.PersistentVolumeClaimList{},
	}
	for kind, list := range lists {
		within(t, 2*time.Minute, func() string {
			must(t, s.List(ctx, list, client.MatchingLabels(naming.PodSelector(name))))
			if n := len(mustItems(t, list)); n > 0 {
				return fmt.Sprintf("%d %s are left", n, kind)
			}
			return ""
		})
	}
}

// pluginTells runs the plugin's verbs explain, top, config and status.
func pluginTells(t *testing.T, s *suite) {
	path := objects[10]
	s.fetch(t, 0, []string{path, path, path, path, path, path}, "-base", base)
	disk := shard.NewPlan(effective.ShardDisks(s.cacheNode(t).Spec.Disks)).Tree().Owner(key(path))
	explained := plugin(t, "", "explain", name, base+path)
	if !strings.Contains(explained, "Disk:  "+disk+",") || !strings.Contains(explained, "   yes ") {
		t.Errorf("explain does not say that %s is on %s, and that a pod has it:\n%s", path, disk, explained)
	}
	sampling := func(percent string) {
		must(t, edit(`{"spec":{"monitoring":{"requestSampling":`+percent+`}}}`))
		s.current(t)
	}
	sampling("100") // by default, only one request in a hundred is counted, so a disk may have none
	defer sampling("null")
	load := s.load(t, objects[:50])
	top := plugin(t, "", "top", name, "--interval", "6s")
	if strings.Count(top, "disk") != 3 || strings.Contains(top, "disk1   0.0 ") {
		t.Errorf("top does not show three disks with requests:\n%s", top)
	}
	load.end()
	if out := plugin(t, "", "config", name+"-0"); !strings.Contains(out, "thread_pool pool_disk1 ") {
		t.Errorf("config has no thread pool:\n%s", out)
	}
	if log := kubectl(t, "", "logs", name+"-0", "--container", layout.Container); strings.Contains(log, "setrlimit") {
		t.Errorf("nginx asks for more open files than its container allows:\n%s", log)
	}
	var told struct {
		Name string
		Pods []struct{ Disks []struct{ State string } }
	}
	must(t, json.Unmarshal([]byte(plugin(t, "", "status", name, "-o", "json")), &told))
	if told.Name != name || len(told.Pods) != 3 || len(told.Pods[2].Disks) != 3 ||
		told.Pods[2].Disks[2].State != "Healthy" {
		t.Errorf("status -o json: %+v", told)
	}
}
