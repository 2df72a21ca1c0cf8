package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// fault is a fault in which a part of the system is stopped, hangs or cannot be reached.
type fault struct {
	name string
	do   func()
}

// faults returns the faults, which the soak test repeats one after another. Faults that take long are only in the long
// soak test.
func (k *soak) faults(t *testing.T) []fault {
	pod := func(i int) *target { return k.target(t, naming.Pod(name, i)) }
	list := []fault{
		{"an agent is killed", func() { k.kill(t, name+"-0", "agent") }},
		{"a pod is deleted", func() { kubectl(t, "", "delete", "pod", name+"-2", "--wait=false") }},
		{"the operator is deleted", func() { operatorKubectl(t, "delete", "pods", "--all", "--wait=false") }},
		{"nginx is killed", func() { k.kill(t, name+"-1", "nginx") }},
		{"a disk is shut down and repaired", func() {
			p := pod(1)
			p.fault(t, "shutdown", "disk2")
			p.becomes(t, "disk2", 15*time.Second, "Shutdown", "IOError")
			p.repair(t, "disk2")
			k.askAgain(t, 1) // the pod is evicted for the repair
		}},
	}
	if k.lasts == 0 {
		return list
	}
	return append(list,
		fault{"a disk hangs for 15 s", func() {
			p := pod(0)
			uid := string(p.pod(t).UID)
			defer p.fault(t, "throttle", "disk1", uid, "0")
			p.fault(t, "throttle", "disk1", uid, "1")
			time.Sleep(15 * time.Second)
		}},
		fault{"a pod is cut off for 15 s", func() {
			k.current(t) // the pod may have been deleted just now
			p := pod(2).pod(t)
			k.cutOff(t, p.Spec.NodeName, p.Status.PodIP)
		}},
		fault{"a node is cut off for 15 s", func() {
			node := pod(2).pod(t).Spec.NodeName
			// These are the addresses of the node and of the pods on it.
			k.cutOff(t, node, strings.Fields(kubectl(t, "", "get", "pods", "--all-namespaces", "--field-selector",
				"spec.nodeName="+node, "-o", "jsonpath={.items[*].status.podIP} {.items[0].status.hostIP}"))...)
		}},
	)
}

// cutOff drops the packets from all other nodes to the given addresses of a node, for 15 seconds.
func (k *soak) cutOff(t *testing.T, node string, addresses ...string) {
	t.Helper()
	slices.Sort(addresses)
	addresses = slices.Compact(addresses) // pods in the node's network have the node's address
	route := func(verb string) {
		for other := range strings.FieldsSeq(kubectl(t, "", "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")) {
			if other == node {
				continue
			}
			for _, address := range addresses {
				cluster(t, "fault", "run", other, "ip", "route", verb, "blackhole", address+"/32")
			}
		}
	}
	defer route("delete")
	route("add")
	time.Sleep(15 * time.Second)
}
