package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// system is a system with two pods of the same cache server.
type system struct {
	name, about string
	// tier is true if hot objects are copied into memory. front is true if the first pod caches nothing itself.
	tier, front bool
	// configure returns the root file system and the command of one of the pods. addresses are the addresses at which
	// the pods reach each other.
	configure func(b *bench, pod int, addresses [2]string, disk lab.Disk) (lab.Root, []string, error)
}

var systems = []system{
	{
		name: "cachenode", about: "routing.tls Off, one NVMe disk a pod",
		configure: ours(`routing: {mode: Sharded, tls: "Off"}`, "media: NVMe"),
	},
	{
		name: "cachenode-tls", about: "routing.tls Mutual, one NVMe disk a pod",
		configure: ours("routing: {mode: Sharded}", "media: NVMe"),
	},
	{
		name: "cachenode-hdd", about: "routing.tls Off, one hard disk a pod, so a hop is two requests",
		configure: ours(`routing: {mode: Sharded, tls: "Off"}, memoryTier: {enabled: false}`, "media: HDD"),
	},
	{
		name: "cachenode-memory", about: "one hot object of the other pod, in the memory tier", tier: true,
		configure: ours(`routing: {mode: Sharded, tls: "Off"}, memoryTier: {size: 200Mi, maxObjectSize: 16Mi}`, "media: HDD"),
	},
	{
		name:  "varnish",
		about: "Varnish 7.1, objects in memory (malloc), a shard director; a pod passes on what is not its own",

		configure: varnish,
	},
	{
		name:  "trafficserver",
		about: "Traffic Server 9.2, consistent-hash parents, two ports of the other pod; this one caches nothing",
		front: true, configure: trafficServer,
	},
}

// ours returns the function configure for a system whose pods belong to a CacheNode. fields contains fields of the
// spec, and disk contains fields of the disk, both as YAML.
func ours(fields, disk string) func(*bench, int, [2]string, lab.Disk) (lab.Root, []string, error) {
	text := fmt.Sprintf(`{apiVersion: cachenode.io/v1alpha1, kind: CacheNode, metadata: {name: edge, namespace: default},
spec: {replicas: 2, %s, disks: [{name: disk1, size: 100Gi, %s}],
  origin: {servers: [{host: 127.0.0.1, port: %d}], hostHeader: bench},
  cache: {key: [RequestURI], valid: [{status: [200], for: 24h}]},
  pod: {resources: {limits: {cpu: %d, memory: %dMi}}}}}`, fields, disk, lab.OriginPort, cpus, memoryMebibytes)
	return func(b *bench, pod int, addresses [2]string, d lab.Disk) (root lab.Root, command []string, err error) {
		cacheNode, err := file.One("-", strings.NewReader(text))
		if err != nil {
			return root, nil, err
		}
		e := effective.Of(cacheNode, effective.Before{})
		wanted, err := revision.Of(e, revision.Outside{ClusterDomain: "cluster.local"})
		if err != nil {
			return root, nil, err
		}
		facts := cache.Facts{
			Cores: cpus, Sizes: map[string]int64{"disk1": diskMebibytes << 20}, Memory: memoryMebibytes << 20,
			Fleet: cache.Fleet{Fleet: fleet.Of(2), Self: pod, Certificate: "bench"},
		}
		config, err := cache.Render(cache.Input{Revision: wanted, Facts: facts})
		if err != nil {
			return root, nil, err
		}
		text := nginxtest.WithAddresses(config.Text, map[int]string{0: addresses[0], 1: addresses[1]})
		root = lab.Root{
			Dir: b.nginxRoot, Tmpfs: []string{"/run", "/tmp", "/var/cache"},
			Binds: map[string]string{"/var/cache/cachenode/disk1/cachenode": d.Dir},
			Files: map[string]string{"/tmp/nginx.conf": "user root;\n" + text, "/run/cachenode/README": ""},
		}
		if e.Spec.Routing.TLS != v1alpha1.PeerTLSOff {
			if err := b.certify(root.Files); err != nil {
				return root, nil, err
			}
		}
		if effective.HasMemoryTier(e.Spec) {
			root.Tmpfs = append(root.Tmpfs, layout.MemoryTierDir)
			root.TmpfsOptions = map[string]string{layout.MemoryTierDir: fmt.Sprintf("size=%d", e.Spec.MemoryTier.Size.Value())}
		}
		return root, []string{"nginx", "-c", "/tmp/nginx.conf", "-e", "stderr"}, nil
	}
}

// certify adds certificates to the files of a pod. Both pods of a system have the same certificates.
func (b *bench) certify(files map[string]string) (err error) {
	if b.certificates == nil {
		name := naming.PeerName("default", "edge")
		if b.certificates, _, err = pki.WithPeers(map[string][]byte{}, nil, name, time.Now()); err != nil {
			return err
		}
	}
	files[layout.PeerCertificate("bench")] = string(b.certificates[naming.PeerCertificateKey])
	files[layout.PeerKey("bench")] = string(b.certificates[naming.PeerKeyKey])
	files[layout.PeerAuthority("bench")] = string(b.certificates[naming.PeerAuthorityKey])
	return nil
}

func varnish(b *bench, pod int, addresses [2]string, _ lab.Disk) (lab.Root, []string, error) {
	root := lab.Root{
		Dir: b.peersRoot, Tmpfs: []string{"/run", "/tmp", "/var/lib/varnish"},
		Files: map[string]string{"/tmp/cache.vcl": strings.NewReplacer(
			"ORIGIN", fmt.Sprint(lab.OriginPort), "PORT", fmt.Sprint(lab.Port), "POD0", addresses[0], "POD1", addresses[1],
			"SELF", fmt.Sprintf("pod%d", pod)).Replace(`vcl 4.1;
import directors;
backend origin { .host = "127.0.0.1"; .port = "ORIGIN"; }
backend pod0 { .host = "POD0"; .port = "PORT"; }
backend pod1 { .host = "POD1"; .port = "PORT"; }
sub vcl_init {
  new pods = directors.shard();
  pods.add_backend(pod0);
  pods.add_backend(pod1);
  pods.reconfigure();
}
sub vcl_recv {
  set req.backend_hint = pods.backend(by=URL, resolve=NOW);
  if (req.http.X-Hop || req.backend_hint == SELF) {
    set req.backend_hint = origin;
    return (hash);
  }
  set req.http.X-Hop = "1";
  return (pass);
}
sub vcl_backend_response { set beresp.ttl = 1d; set beresp.do_stream = true; }
sub vcl_deliver {
  if (req.http.X-Hop) { set resp.http.X-Cache-Hop = "peer"; } else { set resp.http.X-Cache-Hop = "none"; }
}
`)},
	}
	return root, []string{
		"varnishd", "-F", "-T", "none", "-j", "none", "-n", "/run/varnish",
		"-a", fmt.Sprintf("0.0.0.0:%d", lab.Port), "-f", "/tmp/cache.vcl", "-p", "thread_pools=2", "-p", "thread_pool_min=50",
		// If Varnish passes a response on without caching it, it stores the whole response in the storage Transient.
		"-s", fmt.Sprintf("malloc,%dM", memoryMebibytes/3), "-s", fmt.Sprintf("Transient=malloc,%dM", memoryMebibytes/2),
	}, nil
}

// secondPort is the second port on which Traffic Server listens. parents is the template of its strategies.yaml. The
// first pod sends each request to one of the two ports of the other pod, chosen by a consistent hash of the path.
const (
	secondPort = lab.Port + 1
	parents    = `hosts:
- &first {host: %[1]s, protocol: [{scheme: http, port: %[2]d}], weight: 1.0}
- &second {host: %[1]s, protocol: [{scheme: http, port: %[3]d}], weight: 1.0}
groups:
- &pods [*first, *second]
strategies:
- strategy: pods
  policy: consistent_hash
  hash_key: path
  go_direct: false
  parent_is_proxy: false
  scheme: http
  groups: [*pods]
  failover: {ring_mode: exhaust_ring, health_check: [passive]}
`
)

func trafficServer(b *bench, pod int, addresses [2]string, disk lab.Disk) (lab.Root, []string, error) {
	const etc = "/etc/trafficserver"
	records := []string{
		fmt.Sprintf("CONFIG proxy.config.http.server_ports STRING %d %d", lab.Port, secondPort),
		fmt.Sprintf("CONFIG proxy.config.cache.ram_cache.size INT %d", memoryMebibytes<<20/2),
		fmt.Sprintf("CONFIG proxy.config.cache.ram_cache_cutoff INT %d", 32*mebi),
		"CONFIG proxy.config.exec_thread.autoconfig INT 0",
		fmt.Sprintf("CONFIG proxy.config.exec_thread.limit INT %d", cpus),
		"CONFIG proxy.config.admin.user_id STRING trafficserver",
		"CONFIG proxy.config.body_factory.template_sets_dir STRING /usr/share",
		"CONFIG proxy.config.http.cache.required_headers INT 0",
		"CONFIG proxy.config.http.cache.when_to_revalidate INT 3",
		"CONFIG proxy.config.http.insert_response_via_str INT 0",
		"CONFIG proxy.config.log.logging_enabled INT 0",
		"CONFIG proxy.config.url_remap.remap_required INT 1",
		"CONFIG proxy.config.diags.output.error STRING E",
	}
	cached, remap := "url_regex=.* ttl-in-cache=1d", fmt.Sprintf("map / http://127.0.0.1:%d/", lab.OriginPort)
	if pod == 0 { // Traffic Server would never send a request for 127.0.0.1 to a parent
		cached, remap = "url_regex=.* action=never-cache", "map / http://origin.example/ @strategy=pods"
	}
	root := lab.Root{
		Dir: b.peersRoot, Owner: "trafficserver",
		Tmpfs: []string{"/run", "/tmp", "/mnt", etc, "/var/log/trafficserver", "/var/cache/trafficserver"},
		Binds: map[string]string{"/mnt/disk1": disk.Dir},
		Files: map[string]string{
			etc + "/records.config":  strings.Join(records, "\n"),
			etc + "/storage.config":  fmt.Sprintf("/mnt/disk1 %dM", diskMebibytes*8/10),
			etc + "/remap.config":    remap,
			etc + "/strategies.yaml": fmt.Sprintf(parents, addresses[1], lab.Port, secondPort),
			etc + "/cache.config":    cached, etc + "/parent.config": "",
			etc + "/plugin.config": "", etc + "/hosting.config": "", etc + "/volume.config": "",
			etc + "/ip_allow.yaml":      "ip_allow:\n  - {apply: in, ip_addrs: 0/0, action: allow, methods: ALL}\n",
			"/run/trafficserver/README": "",
		},
	}
	return root, []string{"traffic_server"}, nil
}
