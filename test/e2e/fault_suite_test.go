package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

// cluster runs test/cluster/cluster and returns what it prints.
func cluster(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryCluster(args...)
	must(t, err)
	return out
}

func tryCluster(args ...string) (string, error) {
	out, err := exec.Command("../cluster/cluster", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cluster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// nativeOnly skips a test on kind. CONTRIBUTING.md says which these are, and why.
func nativeOnly(t *testing.T) {
	t.Helper()
	if kind := cluster(t, "kind"); kind != "native" {
		t.Skipf("%s needs the native cluster, this is %s: CLUSTER=native test/e2e/all", t.Name(), kind)
	}
}

// target is a pod whose disks are made to fail. All load of these tests goes straight to it.
type target struct {
	*suite
	name string
	tree shard.Tree
}

func (s *suite) target(t *testing.T, name string) *target {
	t.Helper()
	return &target{suite: s, name: name, tree: shard.NewPlan(tuning.ShardDisks(s.node(t).Spec.Disks)).Tree()}
}

func (p *target) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	must(t, p.Get(context.Background(), client.ObjectKey{Name: p.name}, pod))
	return pod
}

// identity changes when the pod is replaced, a container restarts, or nginx does within its container.
func (p *target) identity(t *testing.T) string {
	t.Helper()
	return uids([]corev1.Pod{*p.pod(t)})[p.name] + " " + master(t, p.name)
}

// master is the process of nginx's master.
func master(t *testing.T, pod string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, "", "exec", pod, "-c", layout.Container, "--", "cat", layout.PIDFile))
}

// masters are those of all cache pods.
func (p *target) masters(t *testing.T) string {
	t.Helper()
	var list []string
	for _, pod := range p.cachePods(t) {
		list = append(list, pod.Name+" "+master(t, pod.Name))
	}
	return strings.Join(list, ", ")
}

// fault does something to a disk of the pod.
func (p *target) fault(t *testing.T, fault, disk string, args ...string) string {
	t.Helper()
	return p.prepareFault(t, fault, disk, args...)()
}

// prepareFault finds out now, from the API server, which disk it will be.
func (p *target) prepareFault(t *testing.T, fault, disk string, args ...string) func() string {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(t, p.Get(context.Background(), client.ObjectKey{Name: disk + "-" + p.name}, claim))
	i := strings.LastIndex(claim.Spec.VolumeName, "-") // NODE-DISK, see test/cluster
	command := append([]string{"fault", fault, claim.Spec.VolumeName[:i], claim.Spec.VolumeName[i+1:]}, args...)
	return func() string {
		t.Helper()
		return cluster(t, command...)
	}
}

// report is the pod's part of the status.
func (p *target) report(t *testing.T) v1alpha1.PodStatus {
	t.Helper()
	for _, pod := range p.node(t).Status.Pods {
		if pod.Name == p.name {
			return pod
		}
	}
	return v1alpha1.PodStatus{}
}

// state is that of a disk: the reason if the disk is out of use, and "Healthy" if it is in use.
func (p *target) state(t *testing.T, disk string) string {
	t.Helper()
	for _, d := range p.report(t).Disks {
		if d.Name == disk && d.State == string(v1alpha1.DiskFailed) {
			return d.Reason
		} else if d.Name == disk {
			return d.State
		}
	}
	return "unknown"
}

// version is what the pod's nginx answers with: it changes with each configuration.
func (p *target) version(t *testing.T) string {
	t.Helper()
	out, _ := tryKubectl("", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/version", namespace, p.name, layout.PrivatePort))
	return out
}

// changes waits until nginx runs another configuration than before, and returns when it was seen.
func (p *target) changes(t *testing.T, before string, within time.Duration) time.Time {
	t.Helper()
	within *= patience
	deadline := time.Now().Add(within)
	for {
		if now := p.version(t); now != "" && now != before {
			return time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s runs the same configuration after %s", p.name, within)
		}
	}
}

// becomes waits until a disk is out of use for one of the reasons, or in use where none is given.
func (p *target) becomes(t *testing.T, disk string, within time.Duration, reasons ...string) {
	t.Helper()
	deadline := time.Now().Add(patience * within)
	for {
		got := p.state(t, disk)
		if slices.Contains(reasons, got) || (len(reasons) == 0 && got == string(v1alpha1.DiskHealthy)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s of %s is %s, want %v\n%s", disk, p.name, got, reasons, kubectl(t, "", "logs", p.name, "-c", layout.AgentContainer, "--tail=20"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// disk is where an object's key is.
func (p *target) disk(path string) string { return p.tree.Disk(key(path)) }

// many are 2,000 objects of 2 KB to 200 KB.
var many = func() []string {
	paths := make([]string, 2000)
	for i := range paths {
		paths[i] = content.Path(2000+99*i, fmt.Sprintf("small-%d", i))
	}
	return paths
}()

// fresh are objects that nobody has asked for yet.
func fresh(name string, n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = content.Path(30000+i, fmt.Sprintf("%s-%d", name, i))
	}
	return paths
}

// cut is how the error of a response begins that broke off.
const cut = "body after "

// tally sums results up.
type tally struct {
	requests, hits, failed, cut int
	errors                      []string
	p99                         float64
}

func (a tally) ratio() float64 { return 100 * float64(a.hits) / float64(max(a.requests, 1)) }

func (a tally) String() string {
	return fmt.Sprintf("%d requests, %d failed, %d broke off, %.1f%% HITs, p99 %.1f ms", a.requests, a.failed, a.cut, a.ratio(), a.p99)
}

// count sums up the results that keep selects. A body that broke off after its header is cut; every other error is a
// failure.
func count(results []report.Result, keep func(report.Result) bool) tally {
	var a tally
	var times []float64
	for _, r := range results {
		if !keep(r) {
			continue
		}
		a.requests++
		times = append(times, r.Milliseconds)
		if r.Cache == "HIT" {
			a.hits++
		}
		if r.Error == "" {
			continue
		}
		if strings.HasPrefix(r.Error, cut) {
			a.cut++
		} else {
			a.failed++
		}
		if len(a.errors) < 5 {
			a.errors = append(a.errors, fmt.Sprintf("%s %s %s: %s", time.UnixMilli(r.Began).Format("15:04:05.000"), r.Path, r.Cache, r.Error))
		}
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		a.p99 = times[n*99/100]
	}
	return a
}

// ended is when the client had the whole response, or its error.
func ended(r report.Result) time.Time {
	return time.UnixMilli(r.Began).Add(time.Duration(r.Milliseconds * float64(time.Millisecond)))
}

func began(r report.Result) time.Time { return time.UnixMilli(r.Began) }
