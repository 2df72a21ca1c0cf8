package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/argocd"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/steps"
)

const (
	namespace = "e2e"
	name      = "edge"
	base      = "http://" + name
)

// suite is a client of the cluster, together with data about the cluster that the tests have collected. All steps of a
// test share one suite.
type suite struct {
	client.Client
	clients []string // the test client's pods, one on each node
	// served contains the paths that each pod has served, by the name of the pod.
	served map[string]map[string]bool
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	log.SetLogger(logr.Discard()) // otherwise controller-runtime logs a long warning
	restConfig, err := config.GetConfig()
	must(t, err)
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(restConfig, client.Options{Scheme: scheme})
	must(t, err)
	s := &suite{Client: client.NewNamespacedClient(c, namespace), served: map[string]map[string]bool{}}

	ns := &corev1.Namespace{}
	ns.Name = namespace
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	must(t, client.IgnoreAlreadyExists(c.Create(context.Background(), ns)))
	kubectl(t, "", "apply", "-f", "../origin/origin.yaml", "-f", "../client/client.yaml")
	kubectl(t, "", "rollout", "status", "deployment/origin", "daemonset/client", "--timeout=5m")
	for _, pod := range s.pods(t, client.MatchingLabels{"app": "client"}) {
		s.clients = append(s.clients, pod.Name)
	}
	if len(s.clients) < 2 {
		t.Fatalf("%d nodes, want at least 2", len(s.clients))
	}
	return s
}

// kubectl runs kubectl in the tests' namespace and returns its output.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryKubectl(input string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("kubectl", append([]string{"--namespace", namespace}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// inNginx runs a command in the nginx container of a pod and returns its output.
func inNginx(t *testing.T, pod string, command ...string) string {
	t.Helper()
	return kubectl(t, "", append([]string{"exec", pod, "-c", layout.Container, "--"}, command...)...)
}

// cacheFiles returns a line for each file of a pod's caches. format is a format of find -printf. Files and folders may
// be deleted while cacheFiles runs.
func cacheFiles(t *testing.T, pod, format string) (lines []string) {
	t.Helper()
	out := inNginx(t, pod, "find", "/var/cache/cachenode", "-ignore_readdir_race",
		"-type", "f", "-path", "*/cachenode/cache/*", "-printf", format+`\n`)
	return slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return line == "" })
}

// versionPath returns the path of the API server's proxy from which a client can read the configuration version of a
// pod's nginx.
func versionPath(pod string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/version", namespace, pod, layout.PrivatePort)
}

// fetch fetches paths, one after another, with the test client on one of the nodes.
func (s *suite) fetch(t *testing.T, node int, paths []string, args ...string) []report.Result {
	t.Helper()
	command := append([]string{"exec", "-i", s.clients[node], "--", "/client", "fetch"}, args...)
	decoder := json.NewDecoder(strings.NewReader(kubectl(t, strings.Join(paths, "\n"), command...)))
	var results []report.Result
	for decoder.More() {
		var r report.Result
		must(t, decoder.Decode(&r))
		results = append(results, r)
	}
	if len(results) != len(paths) {
		t.Fatalf("%d results for %d paths", len(results), len(paths))
	}
	return results
}

func (s *suite) pods(t *testing.T, labels client.MatchingLabels) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	must(t, s.List(context.Background(), list, labels))
	return list.Items
}

func (s *suite) cachePods(t *testing.T) []corev1.Pod {
	t.Helper()
	return s.pods(t, naming.PodSelector(name))
}

// uids returns the UID of each pod and the restarts of its nginx container: a value changes when the pod is replaced or
// the container restarts.
func uids(pods []corev1.Pod) map[string]string {
	ids := map[string]string{}
	for _, p := range pods {
		ids[p.Name] = fmt.Sprintf("%s %d", p.UID, p.Status.ContainerStatuses[0].RestartCount)
	}
	return ids
}

func (s *suite) cacheNode(t *testing.T) *v1alpha1.CacheNode {
	t.Helper()
	cacheNode := &v1alpha1.CacheNode{}
	must(t, s.Get(context.Background(), client.ObjectKey{Name: name}, cacheNode))
	return cacheNode
}

// startsWith creates the sample with additional fields of the spec, as YAML, and waits until it is current. replaced
// contains pairs of texts: the first text is in the sample, and the second text replaces it.
func (s *suite) startsWith(t *testing.T, fields string, replaced ...string) {
	t.Helper()
	text, err := os.ReadFile(sample)
	must(t, err)
	s.starts(t, strings.NewReplacer(append(replaced, "spec:\n", "spec:\n"+fields)...).Replace(string(text)))
}

// starts waits until the disks of the previous test are free, and empties them. Then it creates the CacheNode of a
// manifest, and waits until it is current. The CacheNode is deleted at the end of the test.
func (s *suite) starts(t *testing.T, manifest string) {
	t.Helper()
	within(t, time.Minute, func() string { // deleted claims of the previous test keep their disks until they are gone
		const bound = `jsonpath={.items[?(@.status.phase=="Bound")].metadata.name}`
		return strings.TrimSpace(kubectl(t, "", "get", "pvc", "-o", bound))
	})
	cluster(t, "recycle")
	t.Cleanup(func() { kubectl(t, "", "delete", "cachenode", name, "--ignore-not-found", "--wait") })
	kubectl(t, manifest, "apply", "-f", "-")
	s.current(t)
}

// step is a part of a test.
type step struct {
	name string
	run  func(*testing.T, *suite)
}

// isLong is true in make test-all. In this mode, the tests also run long steps, and check rates, which depend on how
// busy the machine is.
var isLong = os.Getenv("CACHENODE_TEST_LONG") != ""

// long returns a step that runs in make test-all but not in make test. Steps that run in make test must not depend on
// it.
func long[T any](run func(*testing.T, T)) func(*testing.T, T) {
	if isLong {
		return run
	}
	return func(t *testing.T, _ T) {
		t.Helper()
		t.Log("left out, as it is long: make test-all runs it, or CACHENODE_TEST_LONG=1")
	}
}

// inOrder runs steps that build on each other, until one fails.
func (s *suite) inOrder(t *testing.T, list []step) {
	t.Helper()
	for _, one := range list {
		begun := time.Now()
		steps.Run(t, one.name, func() { one.run(t, s) })
		t.Logf("%s: done after %s", one.name, time.Since(begun).Round(time.Second))
		if t.Failed() {
			t.FailNow()
		}
	}
}

// passesAgain waits until the operator has made two more passes. It triggers these passes by edits that change nothing
// in the pods.
func (s *suite) passesAgain(t *testing.T) {
	t.Helper()
	for _, seconds := range []string{"1", "null"} {
		must(t, edit(`{"spec":{"rollout":{"canary":{"seconds":`+seconds+`}}}}`))
		within(t, 10*time.Second, func() string {
			if cacheNode := s.cacheNode(t); cacheNode.Status.ObservedGeneration != cacheNode.Generation {
				return "the status is of an earlier generation"
			}
			return ""
		})
	}
}

// asksOnly lets the operator make two more passes. Then it fails the test if the operator has asked a pod to run a
// revision other than want.
func (s *suite) asksOnly(t *testing.T, want string) {
	t.Helper()
	s.passesAgain(t)
	for _, p := range s.cachePods(t) {
		if got := p.Annotations[naming.AnnotationRevision]; got != want {
			t.Errorf("%s is asked to run %s, want %s", p.Name, got, want)
		}
	}
}

// current waits until kstatus reports Current. The test fails if kstatus reports Current before every pod is ready and
// runs the wanted revision. It also fails if Argo CD's health does not agree with kstatus.
func (s *suite) current(t *testing.T) *v1alpha1.CacheNode {
	t.Helper()
	var cacheNode *v1alpha1.CacheNode
	within(t, 3*time.Minute, func() string {
		cacheNode = s.cacheNode(t)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cacheNode)
		must(t, err)
		result, err := status.Compute(&unstructured.Unstructured{Object: content})
		must(t, err)
		health, err := argocd.Check(content)
		must(t, err)
		if (health.Status == "Healthy") != (result.Status == status.CurrentStatus) {
			t.Errorf("Argo CD says %s (%s) where kstatus is %s", health.Status, health.Message, result.Status)
		}
		if result.Status != status.CurrentStatus {
			return fmt.Sprintf("kstatus is %s: %s", result.Status, result.Message)
		}
		return ""
	})
	pods := s.cachePods(t)
	if int32(len(pods)) != *cacheNode.Spec.Replicas {
		t.Errorf("kstatus says Current with %d pods, want %d", len(pods), *cacheNode.Spec.Replicas)
	}
	for _, p := range pods {
		if !isReady(p) {
			t.Errorf("kstatus says Current, but %s is not ready", p.Name)
		}
	}
	for _, p := range cacheNode.Status.Pods {
		if p.Revision != cacheNode.Status.ConfigRevision {
			t.Errorf("kstatus says Current, but %s runs revision %q, want %s",
				p.Name, p.Revision, cacheNode.Status.ConfigRevision)
		}
	}
	return cacheNode
}

func isReady(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// originCount returns the number of requests for objects that the origin has received.
func (s *suite) originCount(t *testing.T) string {
	t.Helper()
	return originSays(t, "count")
}

// originSays returns the origin's answer to a request for one of its paths, such as count, bodies or publish.
func originSays(t *testing.T, what string) string {
	t.Helper()
	return kubectl(t, "", "get", "--raw", "/api/v1/namespaces/"+namespace+"/services/origin:http/proxy/"+what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
