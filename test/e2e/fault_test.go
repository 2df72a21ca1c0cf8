package e2e

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// anyNumber is a value for the parameter most of check. It allows any number of responses to break off between the
// fault and the ejection of the disk.
const anyNumber = 1 << 30

// workers is the number of requests of a load that are in progress at the same time.
const workers = 8

// TestFaults causes faults under load: in the disks of a CacheNode, in its configuration, in its programs, and in the
// control plane.
func TestFaults(t *testing.T) {
	nativeOnly(t)
	cluster(t, "recycle")
	s := newSuite(t)
	text, err := os.ReadFile(apart(t))
	must(t, err)
	// The memory tier is off, because its copies would hide failures of a disk.
	changes := strings.NewReplacer(append(patient, "spec:\n", "spec:\n  memoryTier: {enabled: false}\n")...)
	t.Cleanup(func() { kubectl(t, "", "delete", "cachenode", name, "--ignore-not-found", "--wait") })
	kubectl(t, changes.Replace(string(text)), "apply", "-f", "-")
	must(t, edit(`{"spec":{"rollout":{"workerShutdownTimeout":"10s"}}}`))
	s.current(t)
	p := s.target(t, name+"-0")
	p.warm(t, many)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *target)
	}{
		{"many edits in a row reach all pods, and cost no request", manyEdits},
		{"a configuration that the running master refuses is rolled back", refusedByMaster},
		{"a disk that fills slowly costs no request", long(fillsSlowly)},
		{"a disk that is full at once costs no request", fillsAtOnce},
		{"a disk that is remounted read-only costs no request", readOnly},
		{"a disk that hangs holds up only what was on its way from it", hangs},
		{"a disk that dies costs no request and is repaired", dies},
		{"two disks that die, and then the third, leave the pod serving", allDie},
		{"an agent that is killed changes nothing", killsAgent},
		{"nginx that is killed comes back with its cache", killsNginx},
		{"the pods go on without operator and API server", stopsControlPlane},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, p) }) {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,events", "-o", "wide"))
			t.Log(kubectl(t, "", "logs", p.name, "-c", layout.AgentContainer, "--tail=40"))
			t.FailNow() // the following steps need a healthy pod
		}
	}
}

// ejected is the record of a disk that failed under load. fault is the time at which the fault began. gone is the time
// from which no worker with the disk in its configuration accepted connections. calm and during contain the results of
// the load before the fault and during the fault.
type ejected struct {
	disk         string
	fault, gone  time.Time
	calm, during []report.Result
}

// eject causes a disk to fail under load. It waits until the disk is out of the configuration, which may take at most
// the time within. It also waits until the disk has failed for one of the reasons.
func (p *target) eject(
	t *testing.T, disk string, paths []string, fault func(), within time.Duration, reasons ...string,
) ejected {
	t.Helper()
	e := ejected{disk: disk}
	e.calm = p.load(t, paths, 300, workers).more(t, 1000).end()
	load := p.load(t, paths, 300, workers)
	before, all := p.version(t), p.accepting(t)
	e.fault = time.Now()
	fault()
	changed := p.changes(t, before, within)
	p.becomes(t, disk, 15*time.Second, reasons...)
	e.gone = p.newWorkersAlone(t, all)
	e.during = load.more(t, 600+int(oldConnections.Seconds())*300).end()
	t.Logf("out of the configuration %s after the fault began", changed.Sub(e.fault).Round(time.Millisecond))
	return e
}

// oldConnections is the time for which nginx's old workers still answer on connections that clients keep open
// (keepalive_min_timeout).
const oldConnections = 5 * time.Second

// byNewWorkers returns a function that returns true for a request that only new workers can have received. gone is the
// time from which old workers accepted no connections.
func byNewWorkers(gone time.Time) func(report.Result) bool {
	return func(r report.Result) bool {
		return began(r).After(gone) && !r.Reused || began(r).After(gone.Add(oldConnections))
	}
}

// check fails the test if a request failed, or if the number of responses that broke off is greater than most. It also
// fails the test if a request that began after the ejection failed or broke off. It also fails if the HIT ratio of the
// other disks fell by more than 2 percentage points. A response of which nothing arrived usually counts as failed. It
// counts as broken off only if it belongs to the failed disk and was in progress when the fault began. With anyNumber,
// it is enough that it was in progress between the fault and the time from which no old worker answers.
func (p *target) check(t *testing.T, e ejected, most int) {
	t.Helper()
	gone, until := e.gone, e.fault // only requests in progress when the fault began
	if most == anyNumber {
		gone = gone.Add(oldConnections)
		until = gone
	}
	brokeOff(e.during, func(r report.Result) bool {
		return p.disk(r.Path) == e.disk && began(r).Before(until) && ended(r).After(e.fault)
	})
	all := count(e.during, everything)
	after := count(e.during, func(r report.Result) bool { return began(r).After(gone) })
	others := func(r report.Result) bool { return p.disk(r.Path) != e.disk }
	calm, during := count(e.calm, others), count(e.during, others)
	t.Logf("before: the other disks %s", calm)
	t.Logf("during: all %s; those that began after the ejection: %s; the other disks: %s", all, after, during)
	if all.failed > 0 || all.cut > most {
		t.Errorf("%d requests failed, want none; %d broke off, want at most %d: %v", all.failed, all.cut, most, all.errors)
	}
	if after.failed+after.cut > 0 {
		t.Errorf("after the ejection: %v", after.errors)
	}
	if during.ratio() < calm.ratio()-2 {
		t.Errorf("the other disks' HIT ratio fell from %.1f%% to %.1f%%", calm.ratio(), during.ratio())
	}
}

// brokeOff marks responses of which nothing arrived as broken off, if mayHave returns true for them. This is needed
// because nginx sends a response's header together with the first bytes of the body. If a response breaks off early,
// possibly not even the header has arrived.
func brokeOff(results []report.Result, mayHave func(report.Result) bool) {
	for i, r := range results {
		if strings.HasSuffix(r.Error, "EOF") && !strings.HasPrefix(r.Error, cut) && mayHave(r) {
			results[i].Error = cut + r.Error
		}
	}
}

func fillsSlowly(t *testing.T, p *target) {
	before := p.identity(t)
	p.fault(t, "fill", "disk1", "150")
	stop := make(chan struct{})
	e := p.eject(t, "disk1", append(fresh("slowly", 3000), many...), func() {
		go func() { defer close(stop); p.fault(t, "fill", "disk1", "0", "4") }()
	}, 40*time.Second, "Full")
	free := strings.Fields(inNginx(t, p.name, "df", "-m", "--output=avail", layout.DiskDir("disk1")))[1]
	<-stop
	t.Logf("%s MiB were free some seconds after the ejection", free)
	p.check(t, e, 0)
	p.comesBack(t, "disk1", before, func() { p.fault(t, "unfill", "disk1") })
}

func fillsAtOnce(t *testing.T, p *target) {
	before := p.identity(t)
	var filling sync.WaitGroup
	t.Cleanup(func() { p.fault(t, "unfill", "disk1") })                        // even if the disk is not ejected
	fill := func() { filling.Go(func() { p.fault(t, "fill", "disk1", "0") }) } // until unfill
	e := p.eject(t, "disk1", append(fresh("at-once", 3000), many...), fill, 10*time.Second, "Full")
	p.check(t, e, anyNumber)
	p.comesBack(t, "disk1", before, func() { p.fault(t, "unfill", "disk1"); filling.Wait() })
}

func readOnly(t *testing.T, p *target) {
	before := p.identity(t)
	// The kernel can make a disk with open files read-only, but an administrator cannot. So the agent is killed at the
	// moment of the remount.
	remount := func() { p.fault(t, "readonly", "disk1", string(p.pod(t).UID)) }
	e := p.eject(t, "disk1", append(fresh("read-only", 3000), many...), remount, 10*time.Second, "ReadOnly")
	p.check(t, e, anyNumber)
	p.comesBack(t, "disk1", before, func() { p.fault(t, "writable", "disk1") })
}

// comesBack ends a fault, and waits until the disk is in use again without a restart. Then it requests all objects of
// the variable many, so that they are in the cache again.
func (p *target) comesBack(t *testing.T, disk, identity string, lift func()) {
	t.Helper()
	begun := time.Now()
	lift()
	p.becomes(t, disk, 90*time.Second)
	t.Logf("in use again %s after the fault was lifted", time.Since(begun).Round(100*time.Millisecond))
	if got := p.identity(t); got != identity {
		t.Errorf("the pod was restarted: %s, was %s", got, identity)
	}
	p.current(t)
	p.warm(t, many)
}

// hangs throttles a disk to one read a second. With the configuration of NGINX's article on thread pools, requests for
// the disk's keys would get no answer. With the operator's configuration, every request that a new worker receives is
// answered, although the disk still hangs. Requests for the keys of other disks are answered all the time.
func hangs(t *testing.T, p *target) {
	const disk = "disk2"
	p.probesTake(t, "2s")
	defer p.probesTake(t, "1m")
	before := p.identity(t)
	own, others := p.keysOf(disk)
	othersCalm := p.load(t, others, 200, 4).more(t, 1000).end()
	uid := string(p.pod(t).UID)
	p.evict(t)
	p.fault(t, "throttle", disk, uid, "1")
	fault := time.Now()
	reads := p.fault(t, "throttled", disk, uid)
	version, all := p.version(t), p.accepting(t)
	// Each request that hangs occupies a worker of the client. So the load on the disk's keys has 400 workers.
	ownLoad := p.startLoad(t, own, 20, 400)
	othersLoad := p.load(t, others, 200, 4)
	gone := p.changes(t, version, 20*time.Second)
	p.becomes(t, disk, 15*time.Second, "Slow")
	alone := p.newWorkersAlone(t, all)
	ownResults := append(p.load(t, own, 100, 20).more(t, 300+int(oldConnections.Seconds())*100).end(), ownLoad.end()...)
	othersResults := othersLoad.end()
	readsAfter := p.fault(t, "throttled", disk, uid)
	t.Logf("out of the configuration %s after the fault; the throttle let %s and then %s reads through",
		gone.Sub(fault).Round(time.Millisecond), reads, readsAfter)

	if readsAfter == reads {
		t.Error("the throttle let no read through: nothing is shown")
	}
	late := byNewWorkers(alone)
	after := count(ownResults, late)
	waited := count(ownResults, func(r report.Result) bool { return !late(r) })
	t.Logf("the disk's keys: before the ejection %s; after it %s", waited, after)
	if after.failed+after.cut > 0 || after.requests < 50 {
		t.Errorf("after the ejection: %s %v", after, after.errors)
	}
	calm, during := count(othersCalm, everything), count(othersResults, everything)
	meanwhile := count(othersResults, func(r report.Result) bool { return ended(r).Before(gone) })
	t.Logf("the other disks: before the fault %s; from then on %s; %d of them answered before the ejection",
		calm, during, meanwhile.requests)
	if during.failed+during.cut > 0 || during.ratio() < calm.ratio()-2 || meanwhile.requests < 100 {
		t.Errorf("the other disks: before the fault %s, then %s, %d before the ejection: %v",
			calm, during, meanwhile.requests, during.errors)
	}
	p.comesBack(t, disk, before, func() { p.fault(t, "throttle", disk, uid, "0") })
}

// dies shuts down the file system of a disk, and repairs the disk.
func dies(t *testing.T, p *target) {
	e := p.eject(t, "disk3", many, func() { p.fault(t, "shutdown", "disk3") }, 5*time.Second, "Shutdown")
	p.check(t, e, workers) // at most all requests in progress
	log := kubectl(t, "", "logs", p.name, "-c", layout.Container, "--tail=-1")
	if met := strings.Count(log, "(5: Input/output error)"); met == 0 {
		t.Error("nginx met no I/O error: nothing is shown")
	} else {
		t.Logf("nginx met %d I/O errors", met)
	}
	p.repair(t, "disk3")

	hits := map[string]tally{}
	for _, r := range p.get(t, many) {
		a := hits[p.disk(r.Path)]
		a.requests++
		if r.Error != "" {
			a.failed++
		} else if r.Cache == "HIT" {
			a.hits++
		}
		hits[p.disk(r.Path)] = a
	}
	for disk, a := range hits {
		t.Logf("after the repair: %s: %d of %d objects are HITs", disk, a.hits, a.requests)
		if want := 99.0; a.failed > 0 || a.ratio() < want {
			t.Errorf("after the repair: %s: %d failed, %.1f%% HITs, want %.0f%%", disk, a.failed, a.ratio(), want)
		}
	}
}

// repair repairs disks as docs/howto/repair-a-disk.md describes. The node is cordoned, so that the new pod waits until
// the disks are mounted again.
func (p *target) repair(t *testing.T, disks ...string) {
	t.Helper()
	old := *p.pod(t)
	kubectl(t, "", "cordon", old.Spec.NodeName)
	uncordon := func() { kubectl(t, "", "uncordon", old.Spec.NodeName) }
	t.Cleanup(uncordon) // if the repair fails
	begun := time.Now()
	plugin(t, "", append([]string{"disk", "readmit", p.name}, disks...)...)
	p.isRemade(t, &old, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
	for _, disk := range disks {
		p.fault(t, "remount", disk)
	}
	uncordon()
	p.isRemade(t, &old, isReady)
	for _, disk := range disks {
		p.becomes(t, disk, 30*time.Second)
	}
	p.current(t)
	took := time.Since(begun).Round(100 * time.Millisecond)
	t.Logf("the pod was evicted and is back %s after the repair was declared", took)
}

// isRemade waits until a new pod of the same name exists for which wanted returns true.
func (p *target) isRemade(t *testing.T, old *corev1.Pod, wanted func(corev1.Pod) bool) {
	t.Helper()
	within(t, 2*time.Minute, func() string {
		for _, pod := range p.cachePods(t) {
			if pod.Name == p.name && pod.UID != old.UID && wanted(pod) {
				return ""
			}
		}
		return "no other " + p.name + " came"
	})
}

// allDie shuts down two disks, and then the third. The pod continues to serve, first from the last disk and then from
// the origin.
func allDie(t *testing.T, p *target) {
	before := p.identity(t)
	first, accepting := p.version(t), p.accepting(t)
	load := p.load(t, many, 200, workers)
	firstFault := time.Now()
	p.fault(t, "shutdown", "disk1")
	p.fault(t, "shutdown", "disk2")
	p.changes(t, first, 5*time.Second)
	for _, disk := range []string{"disk1", "disk2"} {
		p.becomes(t, disk, 15*time.Second, "Shutdown")
	}
	firstGone := p.newWorkersAlone(t, accepting)
	var second string // the version without both disks
	within(t, 5*time.Second, func() string {
		second = p.version(t)
		config := inNginx(t, p.name, "cat", layout.ConfigFile)
		switch {
		case strings.Contains(config, "keys_zone=cache_disk1") || strings.Contains(config, "keys_zone=cache_disk2"):
			return "the configuration still has a dead disk"
		case second == "" || !strings.Contains(config, second):
			return "nginx does not run the configuration yet: " + second
		}
		return ""
	})
	lastFault := time.Now()
	p.fault(t, "shutdown", "disk3")
	p.changes(t, second, 5*time.Second)
	p.becomes(t, "disk3", 15*time.Second, "Shutdown")
	gone := p.newWorkersAlone(t, accepting)
	results := load.more(t, 400+int(oldConnections.Seconds())*200).end()
	brokeOff(results, func(r report.Result) bool {
		return (!byNewWorkers(firstGone)(r) && ended(r).After(firstFault)) ||
			(!byNewWorkers(gone)(r) && ended(r).After(lastFault))
	})
	all := count(results, everything)
	last := count(results, byNewWorkers(gone))
	t.Logf("all %s; after the last disk %s", all, last)
	if all.failed > 0 || all.cut > 3*workers || last.cut > 0 {
		t.Errorf("%v", all.errors)
	}
	for _, r := range results {
		if byNewWorkers(gone)(r) && r.Cache != "UNCACHED" {
			t.Errorf("without a disk %s is %s", r.Path, r.Cache)
			break
		}
	}
	if got := p.identity(t); got != before || !isReady(*p.pod(t)) {
		t.Errorf("the pod is %s, was %s; ready: %t", got, before, isReady(*p.pod(t)))
	}
	for _, c := range p.cacheNode(t).Status.Conditions {
		if c.Type == v1alpha1.ConditionDegraded && (c.Status != "True" || !strings.Contains(c.Message, "disk3")) {
			t.Errorf("Degraded is %s: %s", c.Status, c.Message)
		}
	}
	p.repair(t, "disk1", "disk2", "disk3")
	p.warm(t, many)
}

// nginxWorkers returns the number of nginx's worker processes in the pod.
func (p *target) nginxWorkers(t *testing.T) int {
	t.Helper()
	const script = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -c "^nginx: worker" || true`
	out := inNginx(t, p.name, "sh", "-c", script)
	n, err := strconv.Atoi(strings.TrimSpace(out))
	must(t, err)
	return n
}
