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
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

// cluster runs test/cluster/cluster and returns its output.
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

// nativeOnly skips a test on kind. CONTRIBUTING.md lists the skipped tests, and the features that kind lacks.
func nativeOnly(t *testing.T) {
	t.Helper()
	if kind := cluster(t, "kind"); kind != "native" {
		t.Skipf("%s needs the native cluster, this is %s: CLUSTER=native test/e2e/all", t.Name(), kind)
	}
}

// soon changes the sample's disks: a failed disk is used again after two successful probes. The default is ten probes,
// and the number doubles each time that a disk soon fails again. In addition, patient sets the timeout of probes to one
// minute, so that no disk of a busy machine counts as slow.
var (
	soon    = []string{"media: HDD}", "media: HDD, health: {successes: 2}}"}
	patient = []string{"media: HDD}", "media: HDD, health: {successes: 2, timeout: 1m}}"}
)

// target is a pod whose disks or processes a test causes to fail. The target's load goes directly to the pod, not
// through the Service.
type target struct {
	*suite
	name string
	tree shard.Tree
}

func (s *suite) target(t *testing.T, name string) *target {
	t.Helper()
	return &target{suite: s, name: name, tree: shard.NewPlan(effective.ShardDisks(s.cacheNode(t).Spec.Disks)).Tree()}
}

func (p *target) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	must(t, p.Get(context.Background(), client.ObjectKey{Name: p.name}, pod))
	return pod
}

// identity returns a text that changes when the pod is replaced, or when nginx or its container restarts.
func (p *target) identity(t *testing.T) string {
	t.Helper()
	return uids([]corev1.Pod{*p.pod(t)})[p.name] + " " + master(t, p.name)
}

// master returns the process ID of nginx's master in a pod.
func master(t *testing.T, pod string) string {
	t.Helper()
	return strings.TrimSpace(inNginx(t, pod, "cat", layout.PIDFile))
}

// masters returns the process IDs of nginx's masters in all cache pods.
func (p *target) masters(t *testing.T) string {
	t.Helper()
	var list []string
	for _, pod := range p.cachePods(t) {
		list = append(list, pod.Name+" "+master(t, pod.Name))
	}
	return strings.Join(list, ", ")
}

// fault runs a fault of test/cluster/cluster on a disk of the pod, and returns the output.
func (p *target) fault(t *testing.T, fault, disk string, args ...string) string {
	t.Helper()
	return p.prepareFault(t, fault, disk, args...)()
}

// keysOf divides the paths of the variable many into two lists: the paths whose objects belong on the given disk of the
// pod, and all others.
func (p *target) keysOf(disk string) (own, others []string) {
	for _, path := range many {
		if p.disk(path) == disk {
			own = append(own, path)
		} else {
			others = append(others, path)
		}
	}
	return own, others
}

// prepareFault asks the API server to which node and disk the given disk of the pod belongs. It returns a function that
// runs the fault without the API server.
func (p *target) prepareFault(t *testing.T, fault, disk string, args ...string) func() string {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(t, p.Get(context.Background(), client.ObjectKey{Name: disk + "-" + p.name}, claim))
	i := strings.LastIndex(claim.Spec.VolumeName, "-") // NODE-DISK: see test/cluster/cluster
	command := append([]string{"fault", fault, claim.Spec.VolumeName[:i], claim.Spec.VolumeName[i+1:]}, args...)
	return func() string {
		t.Helper()
		return cluster(t, command...)
	}
}

// evict takes the files of all the pod's disks out of the page cache, so that the next reads come from the disks.
func (p *target) evict(t *testing.T) {
	t.Helper()
	for _, disk := range p.cacheNode(t).Spec.Disks {
		p.fault(t, "evict", disk.Name)
	}
}

// report returns the pod's item in the CacheNode's status.
func (p *target) report(t *testing.T) v1alpha1.PodStatus {
	t.Helper()
	for _, pod := range p.cacheNode(t).Status.Pods {
		if pod.Name == p.name {
			return pod
		}
	}
	return v1alpha1.PodStatus{}
}

// state returns the reason for which a disk has failed. If the disk has not failed, it returns the disk's state. The
// status does not list healthy disks.
func (p *target) state(t *testing.T, disk string) string {
	t.Helper()
	pod := p.report(t)
	for _, d := range pod.Disks {
		if d.Name == disk && d.State == string(v1alpha1.DiskFailed) {
			return d.Reason
		} else if d.Name == disk {
			return d.State
		}
	}
	if pod.Revision == "" {
		return "unknown"
	}
	return string(v1alpha1.DiskHealthy)
}

// version returns the version of the configuration with which the pod's nginx answers; "" if nginx does not answer.
// Different configurations have different versions.
func (p *target) version(t *testing.T) string {
	t.Helper()
	out, _ := tryKubectl("", "get", "--raw", versionPath(p.name))
	return out
}

// versionNow returns the same as version. It reads the version from the pod's address over a new connection, without
// the API server.
func versionNow(pod *corev1.Pod) string {
	out, _ := tryCluster("fault", "run", pod.Spec.NodeName, "curl", "--silent", "--noproxy", "*", "--max-time", "1",
		fmt.Sprintf("http://%s:%d/version", pod.Status.PodIP, layout.PrivatePort))
	return out
}

// probesTake sets how long a probe of a disk may take.
func (s *suite) probesTake(t *testing.T, timeout v1alpha1.Duration) {
	t.Helper()
	var edits []string
	for i := range s.cacheNode(t).Spec.Disks {
		edits = append(edits, fmt.Sprintf(`{"op":"replace","path":"/spec/disks/%d/health/timeout","value":%q}`, i, timeout))
	}
	kubectl(t, "", "patch", "cachenode", name, "--type=json", "--patch", "["+strings.Join(edits, ",")+"]")
	s.current(t)
}

// fetchesNow requests an object from the pod's address, without the API server. It returns "" if the status of the
// answer is 200.
func fetchesNow(pod *corev1.Pod, path string) string {
	status, _ := tryCluster("fault", "run", pod.Spec.NodeName, "curl", "--silent", "--noproxy", "*", "--max-time", "5",
		"--header", "Host: "+name, "--output", "/dev/null", "--write-out", "%{http_code}",
		fmt.Sprintf("http://%s:8080%s", pod.Status.PodIP, path))
	if status != "200" {
		return path + ": status " + status
	}
	return ""
}

// changes waits until nginx runs a configuration whose version differs from before. It returns the time at which the
// test noticed this.
func (p *target) changes(t *testing.T, before string, most time.Duration) (seen time.Time) {
	t.Helper()
	within(t, most, func() string {
		if now := p.version(t); now == "" || now == before {
			return p.name + " runs the same configuration"
		}
		seen = time.Now()
		return ""
	})
	return seen
}

// accepting returns the number of the pod's nginx workers that accept connections.
func (p *target) accepting(t *testing.T) (n int) {
	t.Helper()
	for title := range strings.Lines(cluster(t, "fault", "titles", string(p.pod(t).UID), "nginx")) {
		if strings.TrimSpace(title) == "nginx: worker process" {
			n++
		}
	}
	return n
}

// newWorkersAlone waits until exactly the given number of workers accept connections, and returns the time at which
// this was the case. After a reload, an old worker accepts connections until it receives the signal to end. On a busy
// machine, this can be some time after the first answer of a new worker. An old worker that waits for a disk accepts
// connections until the agent kills it.
func (p *target) newWorkersAlone(t *testing.T, workers int) time.Time {
	t.Helper()
	within(t, 20*time.Second, func() string {
		if n := p.accepting(t); n != workers {
			return fmt.Sprintf("%d workers accept connections, want %d", n, workers)
		}
		return ""
	})
	return time.Now()
}

// becomes waits until a disk has failed for one of the given reasons. If no reason is given, it waits until the disk is
// healthy.
func (p *target) becomes(t *testing.T, disk string, most time.Duration, reasons ...string) {
	t.Helper()
	within(t, most, func() string {
		got := p.state(t, disk)
		if slices.Contains(reasons, got) || (len(reasons) == 0 && got == string(v1alpha1.DiskHealthy)) {
			return ""
		}
		return fmt.Sprintf("%s of %s is %s, want %v", disk, p.name, got, reasons)
	})
}

// disk returns the name of the disk to which the key of an object belongs.
func (p *target) disk(path string) string { return p.tree.Owner(key(path)) }

// many are 2,000 objects of 2 KB to 200 KB.
var many = func() []string {
	paths := make([]string, 2000)
	for i := range paths {
		paths[i] = content.Path(2000+99*i, fmt.Sprintf("small-%d", i))
	}
	return paths
}()

// fresh returns the paths of n objects of about 30 KB. If the name is new, nobody has requested these objects yet.
func fresh(name string, n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = content.Path(30000+i, fmt.Sprintf("%s-%d", name, i))
	}
	return paths
}

// cut is the beginning of the client's error for a response that broke off.
const cut = "body after "

// tally is the sum of results.
type tally struct {
	requests, hits, failed, cut int
	errors                      []string
	p99                         float64 // milliseconds
}

func (a tally) ratio() float64 { return 100 * float64(a.hits) / float64(max(a.requests, 1)) }

func (a tally) String() string {
	return fmt.Sprintf("%d requests, %d failed, %d broke off, %.1f%% HITs, p99 %.1f ms",
		a.requests, a.failed, a.cut, a.ratio(), a.p99)
}

// count sums up the results for which keep returns true. A response that broke off after its header counts as cut.
// Every other error counts as failed.
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
			at := time.UnixMilli(r.Began).Format("15:04:05.000")
			text := fmt.Sprintf("%s %s %s: %s", at, r.Path, r.Cache, r.Error)
			if r.Reused {
				text += " (on a connection that was kept)"
			}
			a.errors = append(a.errors, text)
		}
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		a.p99 = times[n*99/100]
	}
	return a
}

// ended returns the time at which the client had the whole response or the error.
func ended(r report.Result) time.Time {
	return time.UnixMilli(r.Began).Add(time.Duration(r.Milliseconds * float64(time.Millisecond)))
}

func began(r report.Result) time.Time { return time.UnixMilli(r.Began) }
