package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// nginx is a server that runs unmodified nginx with the configuration that config returns.
type nginx struct {
	name  string
	about string
	// disks is the text that describes preparation in the report.
	disks       string
	preparation func(object int64) lab.Preparation
	// dirs are the folders in which the configuration expects the disks.
	dirs   [disks]string
	config func(c conditions) (configuration, error)
	// tmpfs contains additional mount options for the memory tier's folder. sysctl is a kernel setting for the server's
	// network namespace. Both are "" for the default.
	tmpfs, sysctl string
	// prepare changes the folder of an empty disk before nginx starts; nil for no change.
	prepare func(dir string) error
}

// configuration is an nginx.conf, and the size in bytes of its memory tier; 0 without a memory tier.
type configuration struct {
	text string
	tier int64
}

func (n nginx) String() string                           { return n.name }
func (n nginx) About() string                            { return n.about + ", " + n.disks }
func (n nginx) Preparation(object int64) lab.Preparation { return n.preparation(object) }

func (n nginx) Start(
	l *lab.Lab, site lab.Site, cgroup *lab.Cgroup, d [disks]lab.Disk, c conditions,
) (*lab.Server, error) {
	config, err := n.config(c)
	if err != nil {
		return nil, err
	}
	if n.sysctl != "" {
		if output, err := site.Inside("sysctl", "-w", n.sysctl).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("sysctl %s: %w\n%s", n.sysctl, err, output)
		}
	}
	root := lab.Root{
		Dir: c.nginxRoot, Tmpfs: []string{"/run", "/tmp", "/mnt", "/var/cache"}, TmpfsOptions: map[string]string{},
		Binds: map[string]string{},
		Files: map[string]string{"/tmp/nginx.conf": config.text, "/run/cachenode/README": ""},
	}
	if config.tier > 0 {
		root.Tmpfs = append(root.Tmpfs, layout.MemoryTierDir)
		root.TmpfsOptions[layout.MemoryTierDir] = strings.TrimSuffix(fmt.Sprintf("size=%d,%s", config.tier, n.tmpfs), ",")
	}
	for i, dir := range n.dirs {
		root.Binds[dir] = d[i].Dir
		if n.prepare == nil {
			continue
		}
		if err := n.prepare(d[i].Dir); err != nil {
			return nil, err
		}
	}
	return l.Start(n.name, site, cgroup, root, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
}

// byHand returns a function that returns a configuration as people write it without an operator. If pools is true, this
// is the article's configuration. If pools is false, it is the same configuration without thread pools.
func byHand(pools bool) func(conditions) (configuration, error) {
	return func(c conditions) (configuration, error) {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
		line("daemon off; pid /run/nginx.pid; user root; error_log stderr crit; worker_processes %d; ", cpus)
		for i := range disks {
			if pools {
				line("thread_pool pool_%d threads=16;", i+1)
			}
		}
		line("events { worker_connections 4096; accept_mutex off; }")
		line("http { access_log off; sendfile on; sendfile_max_chunk 512k; tcp_nopush on; keepalive_requests 100000;")
		line("upstream origin { server 127.0.0.1:%d; keepalive 32; }", lab.OriginPort)
		for i := range disks {
			line("proxy_cache_path /mnt/disk%[1]d levels=1:2 keys_zone=cache_%[1]d:%[3]dm max_size=%[2]dm inactive=7d "+
				"use_temp_path=off;", i+1, c.diskMebibytes*8/10, cmp.Or(c.keysZoneMebibytes, 16))
		}
		line("split_clients $request_uri $disk { 33.3%% 1; 33.3%% 2; * 3; }")
		line("server { listen %d reuseport; location / {", lab.Port)
		line(`proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; ` +
			`proxy_cache_valid any 1d; proxy_max_temp_file_size 0;`)
		line("proxy_cache cache_$disk; proxy_cache_key $request_uri; proxy_cache_lock on;")
		if pools {
			line("aio threads=pool_$disk; aio_write on;")
		}
		line("} } }")
		return configuration{text: b.String()}, nil
	}
}

// rendered returns the configuration that the operator renders from a CacheNode.
func rendered(c conditions) (configuration, error) { return renderedWith(c, "") }

// renderedWith returns the configuration that the operator renders from a CacheNode with more fields in the spec.
// more contains these fields as lines of YAML.
func renderedWith(c conditions, more string) (configuration, error) {
	return renderCacheNode(c, cacheNode(c)+more)
}

// cacheNode returns a CacheNode for the conditions, as YAML. It ends within the spec, so that the caller can append
// fields of the spec.
func cacheNode(c conditions) string {
	cache := "{minFree: 32Mi}"
	if c.keysZoneMebibytes > 0 {
		cache = fmt.Sprintf("{minFree: 32Mi, keysZone: %dMi}", c.keysZoneMebibytes)
	}
	const health = "{device: Shared, minFree: 0, minFreeInodes: 0}" // a lab's disks are small files on one disk
	return fmt.Sprintf(`apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: bench}
spec:
  disks:
  - {name: disk1, size: %[1]dMi, media: %[5]s, cache: %[6]s, health: %[7]s}
  - {name: disk2, size: %[1]dMi, media: %[5]s, cache: %[6]s, health: %[7]s}
  - {name: disk3, size: %[1]dMi, media: %[5]s, cache: %[6]s, health: %[7]s}
  origin: {servers: [{host: 127.0.0.1, port: %[2]d}], hostHeader: bench}
  cache: {key: [RequestURI], valid: [{status: [200], for: 24h}]}
  pod: {resources: {limits: {cpu: %[3]d, memory: %[4]dMi}}}
`, c.declaredMebibytes, lab.OriginPort, cpus, c.memoryMebibytes, c.media, cache, health)
}

// renderCacheNode returns the configuration and the size of the memory tier that the operator renders from a CacheNode.
func renderCacheNode(c conditions, cacheNode string) (configuration, error) {
	text, err := render(c, cacheNode, "conf")
	if err != nil {
		return configuration{}, err
	}
	objects, err := render(c, cacheNode, "yaml")
	if err != nil {
		return configuration{}, err
	}
	config := configuration{text: "user root;\n" + text}
	if match := memoryVolume.FindStringSubmatch(objects); match != nil {
		size, err := resource.ParseQuantity(match[1])
		if err != nil {
			return configuration{}, err
		}
		config.tier = size.Value()
	}
	if tier := strings.Contains(text, layout.MemoryTierCache); tier != (config.tier > 0) {
		return configuration{}, fmt.Errorf("the configuration has a memory tier (%t), the pod one of %d bytes",
			tier, config.tier)
	}
	return config, nil
}

// memoryVolume matches the volume of the memory tier in the rendered pod template, and captures its size. The lab
// mounts the volume as the kubelet would.
var memoryVolume = regexp.MustCompile(`medium: Memory\s+sizeLimit: (\S+)`)

// render runs kubectl cachenode render for a CacheNode, and returns its output in the given format.
func render(c conditions, cacheNode, output string) (string, error) {
	command := exec.Command(c.plugin, "render", "-f", "-", "-o", output)
	command.Stdin = strings.NewReader(cacheNode)
	var errors bytes.Buffer
	command.Stderr = &errors
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl-cachenode render: %w\n%s", err, &errors)
	}
	return string(text), nil
}

func mounts(format string) (dirs [disks]string) {
	for i := range dirs {
		dirs[i] = filepath.Clean(fmt.Sprintf(format, i+1))
	}
	return dirs
}

var (
	handDirs   = mounts("/mnt/disk%d")
	agentsDirs = mounts("/var/cache/cachenode/disk%d/cachenode")
)

var (
	noPools = nginx{
		name: "nginx", about: "nginx without thread pools (aio off), one cache a disk",
		disks: "usual disks", preparation: lab.Usual, dirs: handDirs, config: byHand(false),
	}
	article = nginx{
		name: "article", about: "the article's configuration, 16 threads a disk",
		disks: "usual disks", preparation: lab.Usual, dirs: handDirs, config: byHand(true),
	}
	ours = nginx{
		name: "cachenode", about: "what the operator renders by default",
		disks: "prepared disks", preparation: lab.Prepared, dirs: agentsDirs, config: rendered,
	}
)
