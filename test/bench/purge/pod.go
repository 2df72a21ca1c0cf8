package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/prometheus/procfs"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/bench/cachepod"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	// disks is the number of disks of a pod. podMemory is the memory of a pod, and leastDisk is the minimum size of a
	// disk, both in MiB.
	disks     = 2
	podMemory = 2048
	leastDisk = 384
)

// pod is one measured server: a pod of a CacheNode, a Varnish or a Traffic Server.
type pod struct {
	name   string
	site   lab.Site
	server *lab.Server
	disks  []lab.Disk
	// hasAgent is true for a pod of a CacheNode whose agent is running.
	hasAgent bool
}

// endpoint returns the addresses of the pod's server and agent.
func (p pod) endpoint() endpoint {
	e := endpoint{HTTP: net.JoinHostPort(p.site.Address, strconv.Itoa(lab.Port))}
	if p.hasAgent {
		e.Agent = net.JoinHostPort(p.site.Address, strconv.Itoa(layout.AgentPort))
	}
	return e
}

// startPod starts a pod of a CacheNode, and waits until the agent's index is complete. mebibytes is the size of each
// disk of the pod.
func (b *bench) startPod(name string, mebibytes int64) (p pod, err error) {
	p = pod{name: name, hasAgent: true}
	if p.site, err = b.Site(name); err != nil {
		return p, err
	}
	if err := b.startOrigin(name, p.site); err != nil {
		return p, err
	}
	for i := range disks {
		d, err := b.Disk(fmt.Sprintf("%s-disk%d", name, i+1), mebibytes, lab.Usual(0))
		if err != nil {
			return p, err
		}
		p.disks = append(p.disks, d)
	}
	cgroup, err := b.Cgroup(name, podMemory<<20, p.disks)
	if err != nil {
		return p, err
	}
	if err := cgroup.Throttle(lab.Speed{}); err != nil { // reads are counted from this call on
		return p, err
	}
	spec := cachepod.Pod{
		CacheNode: cacheNode(mebibytes), NginxRoot: b.nginxRoot, Programs: b.Dir + "/bin", Certificates: b.certificates,
		Memory: podMemory << 20,
	}
	p.server, err = spec.Start(b.Lab, name, p.site, cgroup, p.disks)
	if err != nil {
		return p, err
	}
	if err := b.Await(p.site, p.server, lab.Port); err != nil {
		return p, err
	}
	return p, b.ask(job{Case: "settle", Servers: []endpoint{p.endpoint()}}, &struct{}{})
}

// cacheNode returns a CacheNode with two disks and without a memory tier, as YAML. mebibytes is the real size of each
// disk; the CacheNode declares 90% of this size.
func cacheNode(mebibytes int64) string {
	const health = "{device: Shared, minFree: 0, minFreeInodes: 0}"
	// A MiB of the keys zone has room for 8,000 keys, and an object takes 6 KiB of the disk.
	cached := fmt.Sprintf("{minFree: 16Mi, keysZone: %dMi}", max(64, mebibytes/40))
	return fmt.Sprintf(`apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks:
  - {name: disk1, size: %[1]dMi, health: %[3]s, cache: %[4]s}
  - {name: disk2, size: %[1]dMi, health: %[3]s, cache: %[4]s}
  origin: {servers: [{host: 127.0.0.1, port: %[2]d}], hostHeader: bench}
  memoryTier: {enabled: false}
  monitoring: {requestSampling: 0}
`, mebibytes*9/10, lab.OriginPort, health, cached)
}

// agent returns the process of a pod's agent.
func (p pod) agent() (procfs.Proc, error) {
	found, err := p.server.Descendants(cachepod.Agent)
	if err != nil {
		return procfs.Proc{}, err
	}
	for pid := range found {
		return procfs.NewProc(pid)
	}
	return procfs.Proc{}, fmt.Errorf("%s: the agent has ended: %w", p.name, p.server.Running())
}

// kill ends the agent of the pod. nginx keeps running.
func (p pod) kill() error {
	agent, err := p.agent()
	if err != nil {
		return err
	}
	process, err := os.FindProcess(agent.PID)
	if err != nil {
		return err
	}
	return process.Kill()
}
