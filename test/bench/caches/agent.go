package main

import (
	"path/filepath"

	"github.com/cachenode/cachenode-operator/test/bench/cachepod"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// withAgent is a server that runs the same programs as a pod of a CacheNode: nginx, and the agent with its index of the
// cache. The other servers with the operator's configuration run without an agent.
type withAgent struct{}

func (withAgent) String() string { return "agent" }
func (withAgent) About() string {
	return ours.about + ", with the agent beside it in the same memory, " + ours.disks
}
func (withAgent) Preparation(object int64) lab.Preparation { return ours.preparation(object) }

func (s withAgent) Start(
	l *lab.Lab, site lab.Site, cgroup *lab.Cgroup, d [disks]lab.Disk, c conditions,
) (*lab.Server, error) {
	config, err := rendered(c)
	if err != nil {
		return nil, err
	}
	certificates, err := cachepod.Certificates()
	if err != nil {
		return nil, err
	}
	programs := filepath.Dir(c.plugin)
	if err := cachepod.Build(programs); err != nil {
		return nil, err
	}
	return cachepod.Pod{
		CacheNode: cacheNode(c), NginxRoot: c.nginxRoot, Programs: programs, Certificates: certificates,
		Memory: c.memoryMebibytes << 20, Tier: config.tier,
	}.Start(l, s.String(), site, cgroup, d[:])
}
