package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// replacedOwner deletes a pod, and requests the pod's keys from another pod until the new pod answers. It logs how long
// this takes, but the test has no limit for this time.
func replacedOwner(t *testing.T, s *suite) {
	s.endHandover(t) // of a change before
	owners := s.owners(t, 3)
	ofLast := func(of string, count int) (paths []string) {
		for _, path := range fresh(of, count) {
			if owner, _, _, ok := owners.Holders("http://" + name + path); ok && owner == 2 {
				paths = append(paths, path)
			}
		}
		return paths
	}
	paths, others := ofLast("replaced", 300), ofLast("probe", 1500) // objects that are requested again get into memory
	first, last := s.target(t, name+"-0"), s.target(t, name+"-2")
	before := last.pod(t).UID
	load := first.load(t, paths, 100, 16)
	kubectl(t, "", "delete", "pod", last.name)
	asked := 0
	within(t, 3*time.Minute, func() string {
		if !slices.ContainsFunc(s.cachePods(t), func(pod corev1.Pod) bool {
			return pod.Name == last.name && pod.UID != before
		}) {
			return "the pod is not replaced"
		}
		asked++
		for _, r := range first.get(t, others[asked%len(others):][:1]) {
			if r.Hop != "peer" {
				return fmt.Sprintf("%s is answered by %q", r.Path, r.Hop)
			}
		}
		return ""
	})
	s.current(t)
	results := load.more(t, 200).end()
	var began time.Time
	for _, c := range last.pod(t).Status.ContainerStatuses {
		if c.Name == layout.Container && c.State.Running != nil {
			began = c.State.Running.StartedAt.Time
		}
	}
	after := func(r report.Result) bool { return r.Began >= began.UnixMilli() }
	found := int64(0)
	for _, r := range results {
		if after(r) && r.Hop == "peer" && (found == 0 || r.Began < found) {
			found = r.Began
		}
	}
	all := count(results, func(report.Result) bool { return true })
	t.Logf("%s; the new pod answered its keys %.1f s after its nginx began", all,
		time.UnixMilli(found).Sub(began).Seconds())
	if all.failed > 0 || found == 0 {
		t.Errorf("%d of %d requests failed, answered again: %t: %v", all.failed, all.requests, found != 0, all.errors)
	}
}

// failingAgent kills the agent of the pod that gets a load. Then it stops the new agent until a DNS query of nginx to
// the agent has timed out and the pod is not ready. In both cases, no request may fail, and nginx must keep the
// addresses of the other pods.
func failingAgent(t *testing.T, s *suite) {
	p := s.target(t, name+"-0")
	starts := func() string { // restarts of the container, and of the program, which a shell restarts
		restarts := int32(0)
		for _, c := range p.pod(t).Status.InitContainerStatuses {
			restarts += c.RestartCount
		}
		return fmt.Sprint(restarts, strings.Count(p.agentLog(t), "the agent starts"))
	}
	signal := func(which string) {
		inNginx(t, p.name, "sh", "-c", fmt.Sprintf(`for p in /proc/[0-9]*; do
  case "$(tr '\0' ' ' <$p/cmdline)" in %q*) kill -%s ${p#/proc/};; esac
done 2>/dev/null; true`, layout.AgentDir+"/agent ", which))
	}
	load := p.load(t, shared, 200, 16)
	before := starts()
	cluster(t, "fault", "kill", string(p.pod(t).UID), "agent")
	within(t, 2*time.Minute, func() string {
		if starts() == before {
			return "the agent has not started again"
		}
		return ""
	})
	s.current(t)
	const inVain = "could not be resolved (110: Operation timed out)"
	asked := strings.Count(kubectl(t, "", "logs", p.name, "-c", layout.Container), inVain)
	signal("STOP")
	within(t, 2*time.Minute, func() string {
		switch {
		case strings.Count(kubectl(t, "", "logs", p.name, "-c", layout.Container), inVain) == asked:
			return "nginx has not asked the agent"
		case isReady(*p.pod(t)): // the readiness probe asks the agent
			return "the pod is ready"
		}
		return ""
	})
	stopped := time.Now().UnixMilli()
	peers := 0
	for _, r := range p.get(t, fresh("stopped", 100)) {
		if r.Hop == "peer" {
			peers++
		}
	}
	signal("CONT")
	within(t, time.Minute, func() string {
		if !isReady(*p.pod(t)) {
			return "the pod is not ready"
		}
		return ""
	})
	s.current(t)
	results := load.more(t, 200).end()
	all := count(results, func(report.Result) bool { return true })
	t.Logf("%s; while the agent was stopped, other pods answered %d of 100 new objects", all, peers)
	if all.failed > 0 || peers == 0 || results[len(results)-1].Began < stopped {
		t.Errorf("%d of %d requests failed: %v", all.failed, all.requests, all.errors)
	}
}
