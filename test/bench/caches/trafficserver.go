package main

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// trafficServer is Debian's Apache Traffic Server with a cache file on each disk.
type trafficServer struct {
	// promotes is true if Traffic Server loads the plugin cache_promote, which stores an object at its second request. The
	// plugin remembers the last 160,000 objects, ten times the number of objects in the cases with objects of 64 KiB.
	promotes bool
}

func (t trafficServer) String() string {
	if t.promotes {
		return "trafficserver-promote"
	}
	return "trafficserver"
}

func (t trafficServer) About() string {
	about := "Traffic Server 9.2, a cache file a disk, prepared disks; a RAM cache and fragments that fit into the memory"
	if t.promotes {
		about += "; cache_promote, policy lru, hits 2"
	}
	return about
}

func (trafficServer) Preparation(object int64) lab.Preparation { return lab.Prepared(object) }

// memoryOfTrafficServer returns the fragment size and the size of the RAM cache, both in bytes. The RAM cache gets 90%
// of the cgroup's memory, minus the buffers of the connections, minus 100 MiB for everything else. It gets at least a
// sixteenth of the memory. In a trial, Traffic Server used 95 MiB for everything else. The buffers of each connection
// took 1.6 times the size of an object. If an object was larger than a fragment, they took 2.6 times the size of a
// fragment. With less than 500 MiB of memory, fragments are smaller, because the buffers for 200 objects of 1 MiB would
// not fit.
func memoryOfTrafficServer(c conditions) (fragment, ram int64) {
	const others = 100 << 20
	limit, buffers := c.memoryMebibytes<<20, c.connections*c.object*16/10
	fragment = 1 << 20
	if c.memoryMebibytes < 500 {
		fragment = 256 << 10
	}
	if c.object > fragment {
		buffers = c.connections * fragment * 26 / 10
	}
	return fragment, max(limit/16, limit*9/10-others-buffers)
}

func (t trafficServer) Start(
	l *lab.Lab, site lab.Site, cgroup *lab.Cgroup, d [disks]lab.Disk, c conditions,
) (*lab.Server, error) {
	fragment, ram := memoryOfTrafficServer(c)
	records := []string{
		fmt.Sprintf("CONFIG proxy.config.http.server_ports STRING %d", lab.Port),
		fmt.Sprintf("CONFIG proxy.config.cache.ram_cache.size INT %d", ram),
		// The RAM cache may hold objects of every size. By default, it would not hold objects of more than 4 MiB.
		fmt.Sprintf("CONFIG proxy.config.cache.ram_cache_cutoff INT %d", 2*max(c.object, 4<<20)),
		fmt.Sprintf("CONFIG proxy.config.cache.target_fragment_size INT %d", fragment),
		fmt.Sprintf("CONFIG proxy.config.cache.min_average_object_size INT %d", min(c.object, 32<<10)),
		"CONFIG proxy.config.cache.threads_per_disk INT 16",
		"CONFIG proxy.config.exec_thread.autoconfig INT 0",
		fmt.Sprintf("CONFIG proxy.config.exec_thread.limit INT %d", cpus),
		"CONFIG proxy.config.admin.user_id STRING trafficserver",
		"CONFIG proxy.config.body_factory.template_sets_dir STRING /usr/share",
		"CONFIG proxy.config.body_factory.enable_customizations INT 0",
		"CONFIG proxy.config.http.cache.required_headers INT 0",
		"CONFIG proxy.config.http.cache.when_to_revalidate INT 3",
		"CONFIG proxy.config.http.insert_response_via_str INT 0",
		"CONFIG proxy.config.log.logging_enabled INT 0",
		"CONFIG proxy.config.url_remap.remap_required INT 1",
		"CONFIG proxy.config.diags.output.error STRING E",
	}
	const etc = "/etc/trafficserver"
	var storage []string
	root := lab.Root{
		Dir: c.peersRoot, Owner: "trafficserver",
		Tmpfs: []string{"/run", "/tmp", "/mnt", etc, "/var/log/trafficserver", "/var/cache/trafficserver"},
		Binds: map[string]string{},
	}
	for i := range d {
		dir := fmt.Sprintf("/mnt/disk%d", i+1)
		root.Binds[dir] = d[i].Dir
		storage = append(storage, fmt.Sprintf("%s %dM", dir, c.diskMebibytes*8/10))
	}
	plugin := ""
	if t.promotes {
		plugin = " @plugin=cache_promote.so @pparam=--policy=lru @pparam=--hits=2 @pparam=--buckets=160000"
	}
	root.Files = map[string]string{
		etc + "/records.config": strings.Join(records, "\n"),
		etc + "/storage.config": strings.Join(storage, "\n"),
		etc + "/remap.config":   fmt.Sprintf("map / http://127.0.0.1:%d/%s", lab.OriginPort, plugin),
		etc + "/cache.config":   "url_regex=.* ttl-in-cache=1d",
	}
	for _, name := range []string{"plugin.config", "ip_allow.yaml", "hosting.config", "volume.config", "parent.config"} {
		root.Files[etc+"/"+name] = ""
	}
	root.Files["/run/trafficserver/README"] = ""
	root.Files[etc+"/ip_allow.yaml"] = "ip_allow:\n  - {apply: in, ip_addrs: 0/0, action: allow, methods: ALL}\n"
	return l.Start(t.String(), site, cgroup, root, "traffic_server")
}
