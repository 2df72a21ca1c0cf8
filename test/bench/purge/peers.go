package main

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// startVarnish starts Debian's Varnish with its objects in memory. The method PURGE purges a URL, and the method BAN
// adds the ban that the header X-Ban contains.
func (b *bench) startVarnish() (p pod, err error) {
	root := lab.Root{
		Tmpfs: []string{"/run", "/tmp", "/var/lib/varnish"},
		Files: map[string]string{"/tmp/cache.vcl": fmt.Sprintf(`vcl 4.1;
import std;
backend origin { .host = "127.0.0.1"; .port = "%d"; }
sub vcl_recv {
  if (req.method == "PURGE") { return (purge); }
  if (req.method == "BAN") {
    if (std.ban(req.http.X-Ban)) { return (synth(200)); }
    return (synth(400, std.ban_error()));
  }
}
sub vcl_backend_response { set beresp.http.X-URL = bereq.url; }
`, lab.OriginPort)},
	}
	return b.startPeer("varnish", root, nil,
		"varnishd", "-F", "-T", "none", "-j", "none", "-n", "/run/varnish", "-a", fmt.Sprintf("0.0.0.0:%d", lab.Port),
		"-f", "/tmp/cache.vcl", "-p", "thread_pools=2", "-p", "thread_pool_min=50",
		"-s", fmt.Sprintf("malloc,%dM", podMemory*3/4))
}

// startTrafficServer starts Debian's Traffic Server with a cache file on a disk.
func (b *bench) startTrafficServer() (p pod, err error) {
	disk, err := b.Disk("trafficserver", leastDisk, lab.Usual(0))
	if err != nil {
		return p, err
	}
	const etc = "/etc/trafficserver"
	root := lab.Root{
		Owner: "trafficserver",
		Tmpfs: []string{"/run", "/tmp", "/mnt", etc, "/var/log/trafficserver", "/var/cache/trafficserver"},
		Binds: map[string]string{"/mnt/disk1": disk.Dir},
		Files: map[string]string{
			etc + "/records.config": fmt.Sprintf(`CONFIG proxy.config.http.server_ports STRING %d
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 2
CONFIG proxy.config.admin.user_id STRING trafficserver
CONFIG proxy.config.body_factory.template_sets_dir STRING /usr/share
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.http.insert_response_via_str INT 0
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.diags.output.error STRING E`, lab.Port),
			etc + "/storage.config": fmt.Sprintf("/mnt/disk1 %dM", leastDisk*8/10),
			etc + "/remap.config":   fmt.Sprintf("map / http://127.0.0.1:%d/", lab.OriginPort),
			etc + "/cache.config":   "", etc + "/parent.config": "", etc + "/plugin.config": "",
			etc + "/hosting.config": "", etc + "/volume.config": "",
			etc + "/ip_allow.yaml":      "ip_allow:\n  - {apply: in, ip_addrs: 0/0, action: allow, methods: ALL}\n",
			"/run/trafficserver/README": "",
		},
	}
	return b.startPeer("trafficserver", root, []lab.Disk{disk}, "traffic_server")
}

// startPeer starts a cache other than CacheNode, together with its origin.
func (b *bench) startPeer(name string, root lab.Root, d []lab.Disk, command ...string) (p pod, err error) {
	p = pod{name: name, disks: d}
	if root.Dir, err = lab.Recipe("hack/peers-root"); err != nil {
		return p, err
	}
	if p.site, err = b.Site(name); err != nil {
		return p, err
	}
	if err := b.startOrigin(name, p.site); err != nil {
		return p, err
	}
	cgroup, err := b.Cgroup(name, podMemory<<20, d)
	if err != nil {
		return p, err
	}
	if p.server, err = b.Start(name, p.site, cgroup, root, command...); err != nil {
		return p, err
	}
	return p, b.Await(p.site, p.server, lab.Port)
}
