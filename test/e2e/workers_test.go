package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// TestWorkers breaks disks of a CacheNode with io.mode Workers, in which a read that waits stops a whole worker.
func TestWorkers(t *testing.T) {
	nativeOnly(t)
	cluster(t, "recycle")
	s := newSuite(t)
	sample, err := os.ReadFile("../../config/samples/cachenode.yaml")
	must(t, err)
	manifest := strings.NewReplacer(
		"media: HDD", "media: NVMe", "replicas: 3", "replicas: 1", "spec:\n", "spec:\n  io: {mode: Workers}\n",
	).Replace(string(sample))
	kubectl(t, manifest, "apply", "-f", "-")
	s.current(t)
	p := s.target(t, name+"-0")
	for _, step := range []struct {
		name string
		run  func(*testing.T, *target)
	}{
		{"a disk that dies costs no request and is repaired", dies},
		{"a disk that hangs stops the workers until the agent gives reads to pools", hangsWithWorkers},
	} {
		// The page cache of a whole test run takes a second to drop. Meanwhile no read would see a fault.
		must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o644))
		p.warm(t, many)
		p.readsWithoutPools(t)
		if !t.Run(step.name, func(t *testing.T) { step.run(t, p) }) {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,events", "-o", "wide"))
			t.Log(kubectl(t, "", "logs", p.name, "-c", layout.AgentContainer, "--tail=40"))
			t.FailNow()
		}
	}
	kubectl(t, "", "delete", "cachenode", name, "--wait")
}

// usesPools reports whether pools read in a pod.
func (p *target) usesPools(t *testing.T) bool {
	t.Helper()
	return strings.Contains(inNginx(t, p.name, "cat", layout.ConfigFile), "aio threads=")
}

// versionAfresh is version, but asks over a new connection, and again until nginx answers. The API server's own
// connection may lead to a worker that stands still.
func (p *target) versionAfresh(t *testing.T) (version string) {
	t.Helper()
	pod := p.pod(t)
	within(t, time.Minute, func() string {
		out, err := tryCluster("fault", "run", pod.Spec.NodeName, "curl", "--silent", "--noproxy", "*", "--max-time", "1",
			fmt.Sprintf("http://%s:%d/version", pod.Status.PodIP, layout.PrivatePort))
		if err != nil {
			return err.Error()
		}
		version = out
		return ""
	})
	return version
}

// changesAfresh is changes, but asks by versionAfresh.
func (p *target) changesAfresh(t *testing.T, before string, within time.Duration) time.Time {
	t.Helper()
	for deadline := time.Now().Add(patience * within); time.Now().Before(deadline); {
		if now := p.versionAfresh(t); now != before {
			return time.Now()
		}
	}
	t.Fatalf("%s runs the same configuration after %s", p.name, within)
	return time.Time{}
}

// readsWithoutPools waits until the workers of the pod read for themselves. If a probe found a slow disk before, that
// would take ten minutes, so a new agent takes over, which has found none.
func (p *target) readsWithoutPools(t *testing.T) {
	t.Helper()
	for range 5 {
		if !p.usesPools(t) {
			return
		}
		t.Log("a probe found a slow disk: the agent is restarted")
		version := p.version(t)
		cluster(t, "fault", "kill", string(p.pod(t).UID), "agent")
		p.changes(t, version, 30*time.Second)
	}
	t.Fatal("probes find slow disks all the time")
}

// hangsWithWorkers has the reads of a disk hang, which stops every worker. Requests that begin after the agent
// has given reads to pools get an answer, those for the disk's own keys after it is out of use. Old workers that wait
// for the disk end, and their clients learn that: those of the first workers, and of the pools when nginx no longer has
// the disk. Then the disk comes back.
func hangsWithWorkers(t *testing.T, p *target) {
	const disk = "disk2"
	before := p.identity(t)
	own, others := p.keysOf(disk)
	uid, version := string(p.pod(t).UID), p.version(t)
	// Each request that hangs occupies a worker of the client.
	endOwn, endOthers := p.load(t, own, 100, 1000), p.load(t, others, 100, 1000)
	hang := p.prepareFault(t, "hang", disk, uid)
	unix.Sync() // otherwise the page cache would hide the disk
	fault := time.Now()
	hang()
	must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o644))
	pools := p.changesAfresh(t, version, 20*time.Second)
	version = p.versionAfresh(t)
	if !p.usesPools(t) {
		t.Error("reads are not given to pools")
	}
	p.becomes(t, disk, 15*time.Second, "Slow")
	without := p.changesAfresh(t, version, 20*time.Second)
	ownResults, othersResults := lasting(15*time.Second, endOwn), endOthers()
	t.Logf("pools read %s after the fault, the disk is out of use after %s",
		pools.Sub(fault).Round(time.Millisecond), without.Sub(fault).Round(time.Millisecond))

	since := func(at time.Time) func(report.Result) bool {
		return func(r report.Result) bool { return began(r).After(at) }
	}
	until := func(r report.Result) bool { return !began(r).After(pools) && ended(r).After(fault) }
	// In a reload, old workers accept connections for another 100 ms, and more on a busy machine.
	const overlap = 2 * time.Second
	waited, after := count(othersResults, until), count(othersResults, func(r report.Result) bool {
		return since(pools.Add(overlap))(r) && began(r).Sub(without).Abs() > overlap
	})
	ownAfter := count(ownResults, since(without.Add(overlap)))
	t.Logf("the other disks: under way between the fault and pools %s %v; after %s", waited, waited.errors, after)
	t.Logf("the disk's own keys, after it is out of use: %s", ownAfter)
	if after.failed+after.cut > 0 || after.requests < 200 {
		t.Errorf("the other disks, after pools: %s %v", after, after.errors)
	}
	if ownAfter.failed+ownAfter.cut > 0 || ownAfter.requests < 50 {
		t.Errorf("the disk's own keys: %s %v", ownAfter, ownAfter.errors)
	}
	if log := kubectl(t, "", "logs", p.name, "-c", layout.AgentContainer); !strings.Contains(log, "ended old workers") {
		t.Error("the agent has not ended the workers that wait for the disk")
	}
	p.comesBack(t, disk, before, func() { p.fault(t, "unhang", disk, uid) })
}
