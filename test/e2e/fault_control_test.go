package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

func everything(report.Result) bool { return true }

// fiftyEdits changes fields that nginx reloads, one after another, and measures the time from each edit to the moment when
// all pods serve by it.
func fiftyEdits(t *testing.T, p *target) {
	before := uids(p.cachePods(t))
	workersBefore := p.nginxWorkers(t)
	wait := p.load(t, many, 100*time.Second, 200, workers)
	var times []time.Duration
	most := 0
	for i := range 50 {
		begun := time.Now()
		must(t, edit(fmt.Sprintf(`{"spec":{"cache":{"valid":[{"status":[200],"for":"%dm"}]},"hosts":[%q,"*.example.com","edit-%d.test"]}}`, 60+i, name, i)))
		for {
			node := p.node(t)
			served := 0
			for _, pod := range node.Status.Pods {
				if pod.Revision == node.Status.ConfigRevision {
					served++
				}
			}
			if node.Status.ObservedGeneration == node.Generation && served == 3 {
				break
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("edit %d does not reach all pods: %+v", i, node.Status)
			}
			time.Sleep(20 * time.Millisecond)
		}
		times = append(times, time.Since(begun))
		if i%10 == 9 {
			most = max(most, p.nginxWorkers(t))
		}
	}
	slices.Sort(times)
	t.Logf("from the edit to the moment when all three pods serve by it: median %s, worst %s", times[25].Round(time.Millisecond), times[49].Round(time.Millisecond))
	t.Logf("%d workers before, at most %d in between", workersBefore, most)
	if most > 12*workersBefore {
		t.Errorf("old workers pile up: %d, were %d", most, workersBefore)
	}
	all := count(wait(), everything)
	t.Logf("%s", all)
	if all.failed+all.cut > 0 || all.requests < 5000 {
		t.Errorf("%s %v", all, all.errors)
	}
	if after := uids(p.cachePods(t)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were restarted: %v, were %v", after, before)
	}
}

// refusedByMaster uses a name with which the agent of this test's build makes a configuration that nginx -t takes and the
// running master refuses.
func refusedByMaster(t *testing.T, p *target) {
	good := p.node(t).Status.ConfigRevision
	hosts := p.node(t).Spec.Hosts
	wait := p.load(t, many, 15*time.Second, 200, workers)
	must(t, edit(fmt.Sprintf(`{"spec":{"hosts":[%q,"refused-by-the-running-master.example"]}}`, name)))
	deadline := time.Now().Add(10 * time.Second)
	var node *v1alpha1.CacheNode
	for {
		if node = p.node(t); node.Status.Refusal != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no refusal: %+v", node.Status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%s refused it: %s", node.Status.Refusal.Pod, node.Status.Refusal.Message)
	if !strings.Contains(node.Status.Refusal.Message, "levels") {
		t.Errorf("the status does not say what nginx said: %q", node.Status.Refusal.Message)
	}
	time.Sleep(2 * time.Second) // for whoever might take it all the same
	for _, pod := range p.node(t).Status.Pods {
		if pod.Revision != good {
			t.Errorf("%s runs %s, want %s", pod.Name, pod.Revision, good)
		}
		log := kubectl(t, "", "logs", pod.Name, "-c", naming.AgentContainer, "--tail=-1")
		if saw := strings.Contains(log, "nginx refused the configuration"); saw != (pod.Name == node.Status.Refusal.Pod) {
			t.Errorf("%s has seen it: %t", pod.Name, saw)
		}
	}
	if all := count(wait(), everything); all.failed+all.cut > 0 {
		t.Errorf("%s %v", all, all.errors)
	}
	text := `"` + name + `"`
	for _, h := range hosts[1:] {
		text += fmt.Sprintf(",%q", h)
	}
	must(t, edit(`{"spec":{"hosts":[`+text+`]}}`))
	p.current(t)
}

func killsAgent(t *testing.T, p *target) {
	before, version := p.pod(t), p.version(t)
	master := func() string {
		return kubectl(t, "", "exec", p.name, "-c", naming.Container, "--", "sh", "-c", `cat /run/cachenode/nginx.pid; ls /proc | sort -n | while read p; do grep -l "^nginx: worker" /proc/$p/cmdline; done 2>/dev/null; true`)
	}
	processes := master()
	wait := p.load(t, many, 12*time.Second, 200, workers)
	time.Sleep(time.Second)
	cluster(t, "fault", "kill", string(before.UID), "agent")
	time.Sleep(8 * time.Second)
	all := count(wait(), everything)
	t.Logf("%s", all)
	if all.failed+all.cut > 0 {
		t.Errorf("%v", all.errors)
	}
	pod := p.pod(t)
	restarts := pod.Status.InitContainerStatuses[1].RestartCount
	if pod.UID != before.UID || restarts != before.Status.InitContainerStatuses[1].RestartCount+1 || !isReady(*pod) {
		t.Errorf("the agent was restarted %d times, the pod is ready: %t", restarts, isReady(*pod))
	}
	if got := p.version(t); got != version {
		t.Errorf("nginx runs %s, want %s", got, version)
	}
	if got := master(); got != processes {
		t.Errorf("the agent has reloaded nginx when it came back: processes\n%s\nwere\n%s", got, processes)
	}
}

func killsNginx(t *testing.T, p *target) {
	version := p.version(t)
	cluster(t, "fault", "kill", string(p.pod(t).UID), "nginx")
	begun := time.Now()
	deadline := begun.Add(time.Minute)
	for p.version(t) != version || !isReady(*p.pod(t)) {
		if time.Now().After(deadline) {
			t.Fatal("nginx does not come back")
		}
	}
	t.Logf("nginx is back with its configuration %s after it was killed", time.Since(begun).Round(100*time.Millisecond))
	p.current(t)
	if all := count(p.load(t, many, 5*time.Second, 200, workers)(), everything); all.failed+all.cut > 0 || all.ratio() < 99 {
		t.Errorf("%s %v", all, all.errors)
	}
}

// stopsControlPlane stops the operator and the API server: the pods go on, survive the death of a disk, and a container
// restarts.
func stopsControlPlane(t *testing.T, p *target) {
	uid := string(p.pod(t).UID)
	kubectl(t, "", "--namespace", "cachenode-system", "scale", "deployment/cachenode-operator", "--replicas=0")
	kubectl(t, "", "--namespace", "cachenode-system", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=cachenode-operator", "--timeout=60s")
	first := p.load(t, many, 8*time.Second, 200, workers)
	later := p.load(t, many, 40*time.Second, 100, workers) // begun now, as it asks the API server for the pod
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
	if all := count(first(), everything); all.failed+all.cut > 0 || all.ratio() < 99 {
		t.Errorf("without operator and API server: %s %v", all, all.errors)
	}
	died := time.Now()
	dead()
	time.Sleep(5 * time.Second)
	killed := time.Now()
	cluster(t, "fault", "kill", uid, "nginx")
	results := later()
	resume()
	disk := count(results, func(r report.Result) bool { return ended(r).After(died) && ended(r).Before(killed) })
	back := count(results, func(r report.Result) bool { return began(r).After(killed.Add(20 * time.Second)) })
	t.Logf("a disk died: %s; nginx was killed, 20 s later: %s", disk, back)
	if disk.failed > 0 || disk.cut > workers || back.failed+back.cut > 0 || back.requests < 100 {
		t.Errorf("a disk died: %v; nginx was killed: %v", disk.errors, back.errors)
	}
	kubectl(t, "", "--namespace", "cachenode-system", "scale", "deployment/cachenode-operator", "--replicas=1")
	kubectl(t, "", "--namespace", "cachenode-system", "rollout", "status", "deployment/cachenode-operator", "--timeout=60s")
	p.becomes(t, "disk2", time.Minute, "Shutdown")
	p.repair(t, "disk2")
}
