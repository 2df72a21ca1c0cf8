package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func nodeJoins(t *testing.T, s *suite) {
	begun := time.Now()
	kubectl(t, "", "label", "nodes", "node-3", label+"=true")
	within(t, 10*time.Second, func() string {
		if n := *s.cacheNode(t).Spec.Replicas; n != 3 {
			return fmt.Sprintf("%d replicas", n)
		}
		return ""
	})
	s.current(t)
	t.Logf("the node's pod is ready %s after it joined", time.Since(begun).Round(100*time.Millisecond))
	s.checkPins(t)
	if volumes := s.localVolumes(t); len(volumes) != 6 {
		t.Errorf("%d volumes, want 6", len(volumes))
	}
}

func nodeLeaves(t *testing.T, s *suite) {
	host := s.target(t, name+"-0").where(t) // not the highest ordinal: the StatefulSet removes that pod anyway
	kubectl(t, "", "label", "nodes", host, label+"-")
	within(t, 90*time.Second, func() string {
		pods := s.cachePods(t)
		for _, p := range pods {
			if p.Spec.NodeName == host {
				return p.Name + " is still on " + host
			}
		}
		for place := range s.localVolumes(t) {
			if strings.HasPrefix(place, host+" ") {
				return "there is still a volume for " + place
			}
		}
		if len(pods) != 2 {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
	s.current(t)
	s.checkPins(t)
}

// stopNode stops a node, and returns a function that starts the node again. If the test fails, the node is started when
// the test ends.
func stopNode(t *testing.T, host string) (start func()) {
	t.Helper()
	cluster(t, "fault", "stop", host)
	start = sync.OnceFunc(func() { cluster(t, "fault", "start", host) })
	t.Cleanup(start)
	return start
}

// losesMost stops two of three nodes. The operator must assume that it is itself cut off from the network, and must do
// nothing.
func losesMost(t *testing.T, s *suite) {
	pods := s.cachePods(t)
	var hosts []string
	for _, p := range pods {
		hosts = append(hosts, p.Spec.NodeName)
	}
	s.clear(t, hosts...)
	loss := func(after string) { must(t, edit(fmt.Sprintf(`{"spec":{"disruption":{"nodeLossAfter":%q}}}`, after))) }
	loss("30s") // Kubernetes may notice the second stop many seconds after the first
	claims := kubectl(t, "", "get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}")
	var starts []func()
	for _, host := range hosts {
		starts = append(starts, stopNode(t, host))
	}
	message := s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonNodeLost, 90*time.Second)
	t.Log(message)
	if !strings.Contains(message, "2 of 3 nodes are out of service, more than half") {
		t.Errorf("Degraded says %q", message)
	}
	s.passesAgain(t)
	if after := kubectl(t, "", "get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}"); after != claims {
		t.Errorf("the claims are %s, were %s", after, claims)
	}
	for i, p := range s.cachePods(t) {
		if p.UID != pods[i].UID || p.DeletionTimestamp != nil {
			t.Errorf("%s was touched", p.Name)
		}
	}
	for _, start := range starts {
		start()
	}
	s.settles(t, hosts)
	loss("10s")
}

// losesNode stops the node of one of two pods, while a third node is free.
func losesNode(t *testing.T, s *suite) {
	p := s.target(t, name+"-1")
	host, before := p.where(t), string(p.pod(t).UID)
	s.clear(t, host)
	start := stopNode(t, host)
	begun := time.Now()
	p.renewed(t, before, 2*time.Minute)
	t.Logf("%s was lost with its pod; the pod serves from %s after %s, "+
		"of which Kubernetes takes 10 s to notice and nodeLossAfter is 10 s",
		host, p.where(t), time.Since(begun).Round(100*time.Millisecond))
	if p.where(t) == host {
		t.Errorf("the pod is on %s, which is lost", host)
	}
	s.checkPins(t)
	if results := count(p.get(t, many[:100]), everything); results.failed+results.cut > 0 {
		t.Errorf("from the other node: %s: %v", results, results.errors)
	}
	if events := kubectl(t, "", "get", "events"); !strings.Contains(events, "node "+host+" is lost") {
		t.Error("no event tells of the loss")
	}
	start()
	s.settles(t, []string{host})
	within(t, 30*time.Second, func() string { // until the node's disks are available again
		for place, v := range s.localVolumes(t) {
			if strings.HasPrefix(place, host+" ") && v.Status.Phase != corev1.VolumeAvailable {
				return place + " is " + string(v.Status.Phase)
			}
		}
		return ""
	})
}

// clear moves the operator, CoreDNS and the origin away from nodes.
func (s *suite) clear(t *testing.T, hosts ...string) {
	t.Helper()
	selectors := map[string]string{
		"cachenode-system": "app.kubernetes.io/name=cachenode-operator",
		"kube-system":      "k8s-app=kube-dns",
		"e2e":              "app=origin",
	}
	for _, host := range hosts {
		kubectl(t, "", "cordon", host)
		for namespace, selector := range selectors {
			kubectl(t, "", "-n", namespace, "delete", "pod", "-l", selector, "--field-selector", "spec.nodeName="+host)
		}
	}
	kubectl(t, "", "-n", "cachenode-system", "rollout", "status", "deployment/cachenode-operator", "--timeout=5m")
	kubectl(t, "", "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=5m")
	kubectl(t, "", "rollout", "status", "deployment/origin", "--timeout=5m")
	for _, host := range hosts {
		kubectl(t, "", "uncordon", host)
	}
	s.current(t)
}

// settles waits until the nodes are Ready, the test client runs on them, and kstatus reports Current.
func (s *suite) settles(t *testing.T, hosts []string) {
	t.Helper()
	for _, host := range hosts {
		kubectl(t, "", "wait", "node/"+host, "--for=condition=Ready", "--timeout=5m")
	}
	kubectl(t, "", "rollout", "status", "daemonset/client", "--timeout=5m")
	s.current(t)
}
