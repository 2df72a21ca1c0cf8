package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/tuning"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	// disks is how many disks a pod has. podMemory is its memory in MiB, and leastDisk the least size of a disk.
	disks     = 2
	podMemory = 2048
	leastDisk = 384
	// agentMemory is the agent's GOMEMLIMIT for two disks, as the operator sets it.
	agentMemory = "52MiB"
)

// pod is an nginx and an agent, or a peer.
type pod struct {
	name   string
	site   lab.Site
	server *lab.Server
	disks  []lab.Disk
	// hasAgent is true for a pod of a CacheNode.
	hasAgent bool
}

// endpoint is the pod as clients see it.
func (p pod) endpoint() endpoint {
	e := endpoint{HTTP: net.JoinHostPort(p.site.Address, strconv.Itoa(lab.Port))}
	if p.hasAgent {
		e.Agent = net.JoinHostPort(p.site.Address, strconv.Itoa(layout.AgentPort))
	}
	return e
}

// startPod starts a pod of a CacheNode with disks of so many MiB, and waits until its index is complete.
func (b *bench) startPod(name string, mebibytes int64) (p pod, err error) {
	p = pod{name: name, hasAgent: true}
	if p.site, err = b.Site(name); err != nil {
		return p, err
	}
	if err := b.startOrigin(name, p.site); err != nil {
		return p, err
	}
	root, err := b.podRoot(mebibytes)
	if err != nil {
		return p, err
	}
	for i := range disks {
		d, err := b.Disk(fmt.Sprintf("%s-disk%d", name, i+1), mebibytes, lab.Usual(0))
		if err != nil {
			return p, err
		}
		p.disks = append(p.disks, d)
		root.Binds[layout.DiskDir(fmt.Sprintf("disk%d", i+1))] = d.Dir
	}
	cgroup, err := b.Cgroup(name, podMemory<<20, p.disks)
	if err != nil {
		return p, err
	}
	if err := cgroup.Throttle(lab.Speed{}); err != nil { // it counts reads
		return p, err
	}
	// A process that becomes another user does not end with its parent. The shell does, and all others with it.
	const as = "setpriv --reuid 101 --regid 101 --clear-groups "
	p.server, err = b.Start(name, p.site, cgroup, root, "sh", "-euc",
		as+"env GOMAXPROCS=2 GOMEMLIMIT="+agentMemory+" /tmp/bin/agent run &\n"+
			"until [ -e "+layout.ConfigFile+" ]; do sleep 0.05; done\n"+
			as+"nginx -c "+layout.ConfigFile+" -e stderr\nexit")
	if err != nil {
		return p, err
	}
	if err := b.Await(p.site, p.server, lab.Port); err != nil {
		return p, err
	}
	return p, b.ask(job{Case: "settle", Servers: []endpoint{p.endpoint()}}, &struct{}{})
}

// podRoot is what the agent and nginx of a pod see, but for the disks.
func (b *bench) podRoot(mebibytes int64) (root lab.Root, err error) {
	stable, err := revision(mebibytes)
	if err != nil {
		return root, err
	}
	root = lab.Root{
		Dir: b.nginxRoot, Tmpfs: []string{"/run", "/run/cachenode", "/tmp", "/var/cache", "/etc/cachenode"}, Owner: "101:101",
		Binds: map[string]string{"/tmp/bin": b.Dir + "/bin"},
		Files: map[string]string{
			layout.ConfigDir + "/" + naming.StableKey:        stable,
			layout.PodInfoDir + "/" + layout.AnnotationsFile: "",
			layout.PodInfoDir + "/" + layout.CPULimitFile:    "2000",
			layout.PodInfoDir + "/" + layout.MemoryLimitFile: strconv.Itoa(podMemory << 20),
		},
	}
	for _, key := range []string{naming.ServerCertificateKey, naming.ServerKeyKey, naming.AuthorityKey} {
		root.Files[layout.CertificateDir+"/"+key] = string(b.certificates[key])
	}
	return root, nil
}

// revision is what the operator gives to the pods of a CacheNode with two disks and no memory tier.
func revision(mebibytes int64) (string, error) {
	const health = "{device: Shared, minFree: 0, minFreeInodes: 0}"
	// A MiB has room for 8,000 keys of objects that take 6 KiB of the disk each.
	cached := fmt.Sprintf("{minFree: 16Mi, keysZone: %dMi}", max(64, mebibytes/40))
	cacheNode, err := file.One("-", strings.NewReader(fmt.Sprintf(`apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks:
  - {name: disk1, size: %[1]dMi, health: %[3]s, cache: %[4]s}
  - {name: disk2, size: %[1]dMi, health: %[3]s, cache: %[4]s}
  origin: {servers: [{host: 127.0.0.1, port: %[2]d}], hostHeader: bench}
  memoryTier: {enabled: false}
  monitoring: {requestSampling: 0}
`, mebibytes*9/10, lab.OriginPort, health, cached)))
	if err != nil {
		return "", err
	}
	r, err := agentapi.NewRevision(effective.Of(cacheNode, tuning.Before{}), "", "cluster.local", nil)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// agent is the process of a pod's agent.
func (p pod) agent() (procfs.Proc, error) {
	found, err := p.server.Descendants("/tmp/bin/agent")
	if err != nil {
		return procfs.Proc{}, err
	}
	for pid := range found {
		return procfs.NewProc(pid)
	}
	return procfs.Proc{}, fmt.Errorf("%s: the agent has ended: %w", p.name, p.server.Running())
}

// kill ends the agent. nginx goes on.
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
