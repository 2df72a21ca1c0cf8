package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// TestWorkers causes disks to fail in a CacheNode with io.mode Workers. In this mode, a read that waits for a disk
// stops a whole nginx worker.
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

// usesPools reports whether thread pools read files in the pod.
func (p *target) usesPools(t *testing.T) bool {
	t.Helper()
	return strings.Contains(inNginx(t, p.name, "cat", layout.ConfigFile), "aio threads=")
}

// versionAfresh returns the same as version. It uses a new connection for each try, and tries until nginx answers. The
// API server's existing connection may lead to a worker that has stopped.
func (p *target) versionAfresh(t *testing.T) (version string) {
	t.Helper()
	pod := p.pod(t)
	within(t, time.Minute, func() string {
		if version = versionNow(pod); version == "" {
			return "nginx does not answer"
		}
		return ""
	})
	return version
}

// changesAfresh does the same as changes, but reads the version by versionAfresh.
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

// agentLog returns the log of the pod's agent, including the lines from before a restart of the agent.
func (p *target) agentLog(t *testing.T) string {
	t.Helper()
	return kubectl(t, "", "logs", p.name, "-c", layout.AgentContainer)
}

// readsWithoutPools waits until the workers of the pod read files themselves. If a probe has found a slow disk before,
// this would take ten minutes. So readsWithoutPools restarts the agent, because a new agent knows of no slow disk.
func (p *target) readsWithoutPools(t *testing.T) {
	t.Helper()
	for range 5 {
		if !p.usesPools(t) {
			return
		}
		t.Log("a probe found a slow disk: the agent is restarted")
		const begins = "the agent starts"
		starts := strings.Count(p.agentLog(t), begins)
		cluster(t, "fault", "kill", string(p.pod(t).UID), "agent")
		within(t, 2*time.Minute, func() string { // the shell delays each restart longer than the one before
			log := p.agentLog(t)
			if strings.Count(log, begins) == starts {
				return "the agent has not started again"
			}
			// A probe of the new agent may find a slow disk again.
			took := strings.Contains(log[strings.LastIndex(log, begins):], "nginx took the configuration")
			if !took && p.usesPools(t) {
				return "the new agent has not configured nginx"
			}
			return ""
		})
	}
	t.Fatal("probes find slow disks all the time")
}

// workersEnded returns the time at which the agent last ended workers that waited for a disk.
func (p *target) workersEnded(t *testing.T) (at time.Time) {
	t.Helper()
	for line := range strings.Lines(p.agentLog(t)) {
		if strings.Contains(line, "ended old workers") {
			var entry struct{ Time time.Time }
			must(t, json.Unmarshal([]byte(line), &entry))
			at = entry.Time
		}
	}
	if at.IsZero() {
		t.Error("the agent has not ended the workers that wait for the disk")
	}
	return at
}

// hangsWithWorkers causes the reads of a disk to hang, which stops every worker. The agent switches to thread pools,
// and ends the old workers that wait for the disk, so that their clients get an error. From then on, requests over new
// connections are answered. Requests for the disk's own keys are answered when the disk is out of use. Then the disk
// comes back.
func hangsWithWorkers(t *testing.T, p *target) {
	const disk = "disk2"
	before := p.identity(t)
	own, others := p.keysOf(disk)
	uid := string(p.pod(t).UID)
	// Each request that hangs occupies a worker of the client.
	ownLoad, othersLoad := p.load(t, own, 100, 1000), p.load(t, others, 100, 1000)
	hang, evict := p.prepareFault(t, "hang", disk, uid), p.prepareFault(t, "evict", disk)
	p.readsWithoutPools(t) // a probe may have found the load's reads slow
	version := p.version(t)
	fault := time.Now()
	hang()
	evict()
	pools := p.changesAfresh(t, version, 20*time.Second)
	version = p.versionAfresh(t)
	if !p.usesPools(t) {
		t.Error("reads are not given to pools")
	}
	p.becomes(t, disk, 15*time.Second, "Slow")
	without := p.changesAfresh(t, version, 20*time.Second)
	ownResults, othersResults := ownLoad.more(t, 1500).end(), othersLoad.end()
	killed := p.workersEnded(t)
	t.Logf("after the fault: pools read %s, the disk is out of use %s, its workers are ended %s",
		pools.Sub(fault).Round(time.Millisecond), without.Sub(fault).Round(time.Millisecond),
		killed.Sub(fault).Round(time.Millisecond))
	// A connection that a client has kept open may belong to a worker that waits for the disk.
	since := func(at time.Time) func(report.Result) bool {
		return func(r report.Result) bool { return began(r).After(at) && !r.Reused }
	}
	until := func(r report.Result) bool { return !began(r).After(pools) && ended(r).After(fault) }
	// After a reload, old workers accept connections for another 100 ms, and for longer on a busy machine.
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
	longer := count(othersResults, func(r report.Result) bool { return until(r) && ended(r).After(killed.Add(overlap)) })
	if longer.requests > 0 {
		t.Errorf("the other disks: %d requests waited longer than the workers lived: %v", longer.requests, longer.errors)
	}
	p.comesBack(t, disk, before, func() { p.fault(t, "unhang", disk, uid) })
}
