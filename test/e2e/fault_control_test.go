package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

// everything is a filter for count that keeps all results.
func everything(report.Result) bool { return true }

// manyEdits makes ten edits that need a reload, one after another. In make soak, CACHENODE_TEST_EDITS sets the number
// of edits. It measures the time from each edit until all pods serve with the new configuration.
func manyEdits(t *testing.T, p *target) {
	edits := 10
	if text := os.Getenv("CACHENODE_TEST_EDITS"); text != "" {
		edits = number(t, text)
	}
	before, masters := uids(p.cachePods(t)), p.masters(t)
	workersBefore := p.nginxWorkers(t)
	load := p.load(t, many, 200, workers)
	var times []time.Duration
	most := 0
	const patch = `{"spec":{"cache":{"valid":[{"status":[200],"for":"%dm"}]},` +
		`"hosts":[%q,"*.example.com","edit-%d.test"]}}`
	for i := range edits {
		begun := time.Now()
		must(t, edit(fmt.Sprintf(patch, 60+i, name, i)))
		within(t, 20*time.Second, func() string {
			cacheNode := p.cacheNode(t)
			served := 0
			for _, pod := range cacheNode.Status.Pods {
				if pod.Revision == cacheNode.Status.ConfigRevision {
					served++
				}
			}
			if cacheNode.Status.ObservedGeneration != cacheNode.Generation || served != 3 {
				return fmt.Sprintf("edit %d does not reach all pods: %+v", i, cacheNode.Status)
			}
			return ""
		})
		times = append(times, time.Since(begun))
		if i%5 == 4 {
			most = max(most, p.nginxWorkers(t))
		}
	}
	slices.Sort(times)
	median, worst := times[edits/2].Round(time.Millisecond), times[edits-1].Round(time.Millisecond)
	t.Logf("from the edit to the moment when all three pods serve by it: median %s, worst %s", median, worst)
	t.Logf("%d workers before, at most %d in between", workersBefore, most)
	if most > 6*workersBefore {
		t.Errorf("old workers pile up: %d, were %d", most, workersBefore)
	}
	all := count(load.more(t, 300).end(), everything)
	t.Logf("%s", all)
	if all.failed+all.cut > 0 {
		t.Errorf("%s %v", all, all.errors)
	}
	if after := uids(p.cachePods(t)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were restarted: %v, were %v", after, before)
	}
	if got := p.masters(t); got != masters {
		t.Errorf("nginx was restarted: %s, was %s", got, masters)
	}
}

// refusedByMaster adds a host name that the nginx in the test cluster's image treats specially
// (test/cluster/native/nginx). nginx -t accepts the configuration with this name, but the running master refuses it.
func refusedByMaster(t *testing.T, p *target) {
	good := p.cacheNode(t).Status.ConfigRevision
	hosts := p.cacheNode(t).Spec.Hosts
	load := p.load(t, many, 200, workers)
	must(t, edit(fmt.Sprintf(`{"spec":{"hosts":[%q,"refused-by-the-running-master.example"]}}`, name)))
	var cacheNode *v1alpha1.CacheNode
	within(t, 10*time.Second, func() string {
		if cacheNode = p.cacheNode(t); cacheNode.Status.Refusal == nil {
			return fmt.Sprintf("no refusal: %+v", cacheNode.Status)
		}
		return ""
	})
	t.Logf("%s refused it: %s", cacheNode.Status.Refusal.Pod, cacheNode.Status.Refusal.Message)
	if !strings.Contains(cacheNode.Status.Refusal.Message, "levels") {
		t.Errorf("the status does not say what nginx said: %q", cacheNode.Status.Refusal.Message)
	}
	p.asksOnly(t, good)
	for _, pod := range p.cacheNode(t).Status.Pods {
		if pod.Revision != good {
			t.Errorf("%s runs %s, want %s", pod.Name, pod.Revision, good)
		}
		log := kubectl(t, "", "logs", pod.Name, "-c", layout.AgentContainer, "--tail=-1")
		saw := strings.Contains(log, "nginx refused the configuration")
		if saw != (pod.Name == cacheNode.Status.Refusal.Pod) {
			t.Errorf("%s has seen it: %t", pod.Name, saw)
		}
	}
	if all := count(load.more(t, 100).end(), everything); all.failed+all.cut > 0 {
		t.Errorf("%s %v", all, all.errors)
	}
	text := `"` + name + `"`
	for _, h := range hosts[1:] {
		text += fmt.Sprintf(",%q", h)
	}
	must(t, edit(`{"spec":{"hosts":[`+text+`]}}`))
	p.current(t)
}

// processes returns the files in /proc that belong to nginx's processes, and the files that belong to the agent's
// processes.
func (p *target) processes(t *testing.T) (nginx, agent string) {
	t.Helper()
	list := func(pattern string) string {
		return inNginx(t, p.name, "sh", "-c", `grep -l "`+pattern+`" /proc/[0-9]*/cmdline 2>/dev/null; true`)
	}
	return list("^nginx: "), list("^/opt/cachenode/agent")
}

func killsAgent(t *testing.T, p *target) {
	identity, version := p.identity(t), p.version(t)
	nginx, agent := p.processes(t)
	load := p.load(t, many, 200, workers)
	cluster(t, "fault", "kill", string(p.pod(t).UID), "agent")
	var nginxAfter, agentAfter string
	within(t, 15*time.Second, func() string {
		if nginxAfter, agentAfter = p.processes(t); agentAfter == agent || agentAfter == "" {
			return fmt.Sprintf("the agent is process %q, was %q", agentAfter, agent)
		}
		return ""
	})
	all := count(load.more(t, 1000).end(), everything) // the new agent checks nginx at its start and every 2 s
	t.Logf("%s", all)
	if all.failed+all.cut > 0 {
		t.Errorf("%v", all.errors)
	}
	if nginxAfter, _ = p.processes(t); nginxAfter != nginx || p.version(t) != version || p.identity(t) != identity {
		t.Errorf("the agent has changed something when it came back: nginx is processes %q, were %q", nginxAfter, nginx)
	}
	p.current(t)
}

func killsNginx(t *testing.T, p *target) {
	version := p.version(t)
	cluster(t, "fault", "kill", string(p.pod(t).UID), "nginx")
	begun := time.Now()
	within(t, time.Minute, func() string {
		if got := p.version(t); got != version || !isReady(*p.pod(t)) {
			return fmt.Sprintf("nginx answers with version %q, want %q; the pod is ready: %t", got, version, isReady(*p.pod(t)))
		}
		return ""
	})
	t.Logf("nginx is back with its configuration %s after it was killed", time.Since(begun).Round(100*time.Millisecond))
	p.current(t)
	workersBefore := nginxPIDs(t, p.pod(t))
	all := count(p.load(t, many, 200, workers).more(t, 1000).end(), everything)
	checkHits(t, "nginx is back", all, workersBefore == nginxPIDs(t, p.pod(t)))
}

// nginxPIDs returns the process ids of a pod's nginx. It does not need the API server.
func nginxPIDs(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	return cluster(t, "fault", "pids", string(pod.UID), "nginx")
}

// checkHits fails the test if a request of a tally failed. If nginx had the same workers all the time, it also fails
// the test if fewer than 99% of the requests were HITs. On a busy machine, the agent may consider a disk slow. nginx
// then gets new workers without this disk, and requests for objects on the disk are no HITs.
func checkHits(t *testing.T, when string, all tally, sameWorkers bool) {
	t.Helper()
	t.Logf("%s: %s; nginx had the same workers: %t", when, all, sameWorkers)
	if all.failed+all.cut > 0 || sameWorkers && all.ratio() < 99 {
		t.Errorf("%s: %s %v", when, all, all.errors)
	}
}

// restartsNginx kills a program in a pod, and waits until a new nginx answers. It returns the time at which it noticed
// the first answer. It does not need the API server.
func restartsNginx(t *testing.T, pod *corev1.Pod, program string) time.Time {
	t.Helper()
	uid := string(pod.UID)
	before := nginxPIDs(t, pod)
	cluster(t, "fault", "kill", uid, program)
	within(t, time.Minute, func() string {
		now := nginxPIDs(t, pod)
		for pid := range strings.FieldsSeq(now) {
			if slices.Contains(strings.Fields(before), pid) {
				return "the old nginx has not ended: " + pid
			}
		}
		if now == "" || versionNow(pod) == "" {
			return "no nginx answers"
		}
		// A new nginx needs a moment before it knows the origin's address.
		return fetchesNow(pod, content.Path(2000, "after-"+strings.Fields(now)[0]))
	})
	return time.Now()
}

// stopsControlPlane stops the operator and the API server. The pods continue to serve while a container restarts, a
// dead disk leaves the configuration, and nginx comes back without that disk.
func stopsControlPlane(t *testing.T, p *target) {
	pod := p.pod(t)
	operatorKubectl(t, "scale", "deployment/cachenode-operator", "--replicas=0")
	t.Cleanup(func() { operatorKubectl(t, "scale", "deployment/cachenode-operator", "--replicas=1") }) // if a step fails
	operatorKubectl(t, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=cachenode-operator", "--timeout=5m")
	calm := p.load(t, many, 200, workers)
	load := p.load(t, many, 100, workers) // started now, because the start needs the API server
	dead := p.prepareFault(t, "shutdown", "disk2")
	cluster(t, "fault", "pause", "kube-apiserver")
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			cluster(t, "fault", "continue", "kube-apiserver")
		}
	}
	defer resume()
	workersBefore := nginxPIDs(t, pod)
	all := count(calm.more(t, 1000).end(), everything)
	checkHits(t, "without operator and API server", all, workersBefore == nginxPIDs(t, pod))
	restarted := restartsNginx(t, pod, "sh") // the container ends when its shell is killed
	load.more(t, 200)
	died, before := time.Now(), versionNow(pod)
	dead()
	within(t, 20*time.Second, func() string {
		if now := versionNow(pod); now == "" || before == "" || now == before { // "" is no answer
			return "the dead disk is in the configuration"
		}
		return ""
	})
	load.more(t, 200)
	killed := time.Now()
	back := restartsNginx(t, pod, "nginx")
	results := load.more(t, 200).end()
	resume()
	between := func(from, to time.Time) tally {
		return count(results, func(r report.Result) bool { return began(r).After(from) && ended(r).Before(to) })
	}
	for what, a := range map[string]tally{
		"a container restarted": between(restarted, died),
		"a disk died":           between(died, killed),
		"nginx was killed":      between(back, time.Now()),
	} {
		t.Logf("%s: %s", what, a)
		if a.failed > 0 || a.cut > workers || a.requests < 100 {
			t.Errorf("%s: %s %v", what, a, a.errors)
		}
	}
	operatorKubectl(t, "scale", "deployment/cachenode-operator", "--replicas=1")
	operatorKubectl(t, "rollout", "status", "deployment/cachenode-operator", "--timeout=5m")
	p.becomes(t, "disk2", time.Minute, "Shutdown")
	was, is := pod.Status.ContainerStatuses[0].RestartCount, p.pod(t).Status.ContainerStatuses[0].RestartCount
	if is != was+1 {
		t.Errorf("nginx's container has restarted %d times, want once", is-was)
	}
	p.repair(t, "disk2")
}
