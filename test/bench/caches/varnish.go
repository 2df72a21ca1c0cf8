package main

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// varnish is Debian's Varnish. It has a file storage on each disk, and chooses the disk by the last two digits of the
// URL. If malloc is true, its objects are in memory instead.
type varnish struct{ malloc bool }

func (v varnish) String() string {
	if v.malloc {
		return "varnish-malloc"
	}
	return "varnish"
}

func (v varnish) About() string {
	if v.malloc {
		return "Varnish 7.1, its objects in three quarters of the memory (malloc), no disks"
	}
	return "Varnish 7.1, one file storage a disk (advice sequential), chosen by URL, " +
		"prepared disks with a read-ahead of 512 KiB"
}

// Preparation returns the preparation of [lab.Prepared] with a smaller read-ahead. Varnish reads files through page
// faults, and each page fault reads as many bytes as the read-ahead setting. So a read-ahead of 4 MiB would be too
// large.
func (v varnish) Preparation(object int64) lab.Preparation {
	p := lab.Prepared(object)
	p.ReadAhead = 512
	return p
}

func (v varnish) Start(
	l *lab.Lab, site lab.Site, cgroup *lab.Cgroup, d [disks]lab.Disk, c conditions,
) (*lab.Server, error) {
	root := lab.Root{
		Dir: c.peersRoot, Tmpfs: []string{"/run", "/tmp", "/mnt", "/var/lib/varnish"}, Binds: map[string]string{},
		Files: map[string]string{"/tmp/cache.vcl": fmt.Sprintf(`vcl 4.1;
import std;
backend origin { .host = "127.0.0.1"; .port = "%d"; }
sub vcl_backend_response {
  set beresp.ttl = 1d;
  set beresp.do_stream = true;
  if (bereq.url ~ "([036]|[147]9)$") {
    set beresp.storage = storage.disk1;
  } else if (bereq.url ~ "([147]|[258]9)$") {
    set beresp.storage = storage.disk2;
  } else {
    set beresp.storage = storage.disk3;
  }
}
`, lab.OriginPort)},
	}
	command := []string{
		"varnishd", "-F", "-T", "none", "-j", "none", "-n", "/run/varnish",
		"-a", fmt.Sprintf("0.0.0.0:%d", lab.Port), "-f", "/tmp/cache.vcl",
		"-p", "thread_pools=2", "-p", "thread_pool_min=150", "-p", "workspace_thread=1k", "-s", "Transient=malloc,16M",
	}
	for i := range d {
		dir := fmt.Sprintf("/mnt/disk%d", i+1)
		root.Binds[dir] = d[i].Dir
		if v.malloc {
			command = append(command, "-s", fmt.Sprintf("disk%d=malloc,%dM", i+1, c.memoryMebibytes/4))
			continue
		}
		command = append(command, "-s", fmt.Sprintf("disk%d=file,%s/storage,%dM,,sequential", i+1, dir, c.diskMebibytes*8/10))
	}
	return l.Start("varnish", site, cgroup, root, command...)
}
