// Package cache turns a CacheNode into nginx's configuration. It is pure: operator, agent and kubectl plugin render the
// same bytes from the same input.
//
// The package may import cachekey, conf and the packages that define the meaning of a spec. The file node.go shows the
// parts of a configuration, and from which part each part is made. Put a new directive into the part that has the
// inputs of the directive. Put a new fact of the pod into Facts.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// Input is everything on which the configuration depends.
type Input struct {
	agentapi.Revision
	Facts Facts
	// Also are actions of other revisions. Those of the next revision make nginx ask for the addresses of its backends
	// before it gets requests for them. Those of earlier revisions are for old workers, whose requests pass through the
	// sockets of new workers, for example for the next slices of a download.
	Also []routes.Action
	// AlsoPolicies are the policies of these actions, by ID.
	AlsoPolicies map[string]v1alpha1.CacheRules
	// Coming are the servers of the next revision's own origin. Those that the revision's own origin does not have get no
	// requests yet, but nginx asks for their addresses.
	Coming []v1alpha1.OriginServer
}

// Facts are the properties of nginx's pod that affect the configuration. The operator validates the configuration with
// the memory limit of the spec and with NominalFleet as facts. The plugin renders the configuration with the same
// facts, and also with the cores of the spec.
type Facts struct {
	// Cores is the number of cores that nginx may use; 0 means all cores of the node.
	Cores int32
	// Failed are the disks that cannot be used. The other disks get the slots of these disks. If all disks have failed,
	// nothing is cached.
	Failed []string
	// Scripts is true if nginx can load Module.
	Scripts bool
	// Waits is true if reads have recently had to wait for a disk. With io.mode Workers, thread pools then read instead of
	// the workers.
	Waits bool
	// Certificate is a hash of the certificate that clients see and of its key, if listen.tls is set. Both must be at
	// layout.ListenerCertificate and layout.ListenerKey before nginx reads the text.
	Certificate string
	// Sizes are the known sizes of file systems in bytes, by disk. A cache is never larger than its disk.
	Sizes map[string]int64
	// Memory is nginx's memory limit in bytes; 0 if it is not known.
	Memory int64
	// OpenFiles is the maximum number of files that each process of nginx may have open (the hard limit); 0 if it is not
	// known.
	OpenFiles int64
	// Generations contains the generation of each disk whose generation is not 0. If the generation of a disk changes,
	// nginx no longer finds the objects on the disk.
	Generations map[string]int64
	// Fleet describes the other pods, if routing.mode is Sharded. If it has no members, the pod answers every request
	// itself.
	Fleet Fleet
}

// Config is a rendered configuration.
type Config struct {
	// Text is the content of nginx.conf.
	Text string
	// Version consists of the revision and a hash of the text. The hash is different in pods with different facts. The
	// running nginx returns the version on the private port.
	Version string
	// Files are the files that must exist before nginx reads the text. The certificates of [Facts] must exist too.
	Files []File
	// Plan defines which disk has which keys after the failed disks are left out. It is valid only if Cached is true.
	Plan shard.Plan
	// Cached is false if all disks with keys have failed.
	Cached bool
}

// File is a file that nginx.conf refers to. Its name changes with its content. So the running configuration and a
// configuration that is being tried can use different files.
type File struct {
	Path    string
	Content []byte
	// Secret is true if only nginx's user and group may read the file.
	Secret bool
}

// placeholder takes the place of the version until the text is complete, because the version contains a hash of the
// text.
const placeholder = "the-version"

// Render returns the rendered configuration. An error means that validation accepted a string that a configuration
// cannot contain; the text of the error names the directive.
func Render(in Input) (Config, error) {
	c := newConfiguration(in)
	text, err := conf.Write(c.file())
	if err != nil {
		return Config{}, err
	}
	version := in.ID + "-" + digest(text)
	text = strings.Replace(text, placeholder, version, 1)
	return Config{Text: text, Version: version, Files: c.files(), Plan: c.plan, Cached: len(c.disks) > 0}, nil
}

// Check returns the error that Render would return. It does not render the ranges of the plan, which take most of the
// time.
func Check(in Input) error {
	c := newConfiguration(in)
	c.withoutRanges = true
	_, err := conf.Write(c.file())
	return err
}

// configuration is a node with its sites.
type configuration struct {
	node
	// sites contains the CacheNode's own site, if the spec has an origin. If there is a listener, it also contains the
	// settings that all routes have in common.
	sites []site
	// withoutRanges is true if the ranges of the plans are left out.
	withoutRanges bool
}

func newConfiguration(in Input) configuration {
	n := newNode(in)
	c := configuration{node: n}
	if own := sites.Own(in.Spec); !own.IsEmpty() {
		c.sites = append(c.sites, newSite(n, own))
	}
	if n.hasRoutes() {
		c.sites = append(c.sites, newRoutes(n))
	}
	return c
}

// any returns true if one of the sites has a property.
func (c configuration) any(has func(site) bool) bool { return slices.ContainsFunc(c.sites, has) }

// files returns the files to which nginx.conf refers, except the certificates in [Facts].
func (c configuration) files() (list []File) {
	if c.any(site.hasScript) {
		list = append(list, File{Path: ScriptFile(), Content: []byte(Script)})
	}
	for _, s := range c.sites {
		if s.backend.authorities != "" {
			list = append(list, File{Path: s.backend.authorities, Content: []byte(c.CABundle)})
		}
	}
	return list
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:8]
}

// file returns the whole nginx.conf. It sets every directive for which an image could have another default.
func (c configuration) file() conf.Block {
	workers := conf.Argument(conf.Literal("auto"))
	if n := effective.Workers(c.Spec.IO, c.Facts.Cores); n > 0 {
		workers = conf.Int(n)
	}
	connections, files := effective.OpenFiles(c.Spec, c.Facts.OpenFiles)
	var block conf.Block
	if c.any(site.hasScript) {
		block = conf.Block{loadModule()}
	}
	block = append(block,
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal(layout.PIDFile)),
		conf.D("error_log", conf.Literal("stderr"), conf.Literal(logLevels[c.Spec.Logs.Level])),
		conf.D("error_log", toAgent("error"), conf.Literal("notice")),
		conf.D("worker_processes", workers),
		conf.D("worker_rlimit_nofile", conf.Int(files)),
		conf.D("worker_shutdown_timeout", conf.Time(effective.Duration(c.Spec.Rollout.WorkerShutdownTimeout))),
	)
	block = append(block, diskCaches{c.node}.threadPools()...)
	return append(block,
		conf.B("events", nil,
			conf.D("worker_connections", conf.Int(connections)),
			conf.D("accept_mutex", conf.OnOff(false)),
		),
		conf.B("http", nil, c.http()...),
	)
}

// toAgent returns the address to which nginx sends its reports for the agent. The tag tells the agent what a line
// reports.
func toAgent(tag string) conf.Literal {
	return conf.Literal(fmt.Sprintf("syslog:server=%s,nohostname,tag=%s", layout.LogAddress, tag))
}

var logLevels = map[string]string{
	"Debug": "debug", "Info": "info", "Notice": "notice", "Warn": "warn", "Error": "error", "Crit": "crit",
}

func (c configuration) http() conf.Block {
	block := conf.Block{
		conf.D("access_log", conf.OnOff(false)),
		conf.D("server_tokens", conf.OnOff(false)),
		// sendfile is set here because of subrequests: a subrequest in a location without sendfile would switch sendfile
		// off for the client's connection. The lookup in memory copies without sendfile, but no subrequest goes to it.
		conf.D("sendfile", conf.OnOff(!c.any(site.copies))),
		// A reload or a stop closes idle connections. Without this minimum time, a request that a client sends at that moment
		// would be lost.
		conf.D("keepalive_min_timeout", conf.Literal("5s")),
		// These sizes are enough for 64 names of 253 characters. With smaller sizes, nginx would refuse to start.
		conf.D("server_names_hash_bucket_size", conf.Literal("512")),
		conf.D("server_names_hash_max_size", conf.Literal("4096")),
		// The first buffer is for the headers of a response, including a stored response. The origin may send headers of 16
		// KiB, for example with many tags, and the gateway adds its own headers.
		conf.D("proxy_buffer_size", conf.Literal("20k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("4k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("20k")),
	}
	if c.hasRoutes() {
		block = append(block, routemap.Sizes()...)
	} else { // by default, nginx has no room for so many variables
		block = append(block, conf.D("variables_hash_max_size", conf.Literal("4096")))
	}
	if c.any(site.copies) {
		block = append(block, conf.D("output_buffers", conf.Int(effective.CopyBuffers), conf.Size(effective.CopyBuffer)))
	}
	// tcp_nopush is not on in every pod. With a memory tier, the end of a response would wait for the mirror request; see
	// docs/adr/0018. With threads, a hit of 1 MiB would need more reads of the disk; see docs/adr/0019.
	if !c.hasMemoryTier() && c.Spec.IO.Mode == v1alpha1.IODirect {
		block = append(block, conf.D("tcp_nopush", conf.OnOff(true)))
	}
	block = slices.Concat(block, temporaryPaths(), conf.Block{malformedMap()})
	if c.any(site.hasScript) {
		block = append(block, engine()...)
	}
	l := listeners{c.node}
	block = slices.Concat(block, diskCaches{c.node}.cachePaths(), c.memoryCache(), l.clientsZone(), l.listenerTLS(),
		c.podsZone(), c.resolver(), pods{c.node}.upstreams(c.sites))
	if sites.Own(c.Spec).IsEmpty() {
		block = append(block, l.nothing())
	}
	for _, s := range c.sites {
		part := s.http()
		if !c.withoutRanges {
			part = append(part, keySpace{s}.shards()...)
		}
		if s.ofRoutes {
			part = append(routed{c.node}.http(), conf.Scope(part, routesSuffix, "$host")...)
		}
		block = append(block, part...)
	}
	return append(block, privateServer()...)
}

// http returns the part of the configuration that serves this site. It leaves out the directives that all sites of the
// node share.
func (s site) http() conf.Block {
	toClients, toPods := door{site: s}, door{site: s, toPeers: true}
	return slices.Concat(s.scriptVariables(), reports{s}.reporting(), s.backend.upstreams(), tier{toClients}.memoryTier(),
		public{toClients}.servers(), peers{toPods}.servers(), gateway{s}.gateway(), diskCaches{s.node}.otherDisk())
}

// resolver returns the resolver if nginx must resolve a name.
func (c configuration) resolver() conf.Block {
	if len(c.peers()) == 0 && !c.any(func(s site) bool { return s.backend.resolves() }) {
		return nil
	}
	return resolver()
}

// temporaryPaths returns the directives for temporary folders to which nginx may write.
func temporaryPaths() (block conf.Block) {
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		block = append(block, conf.D(kind+"_temp_path", conf.Literal(layout.RunDir+"/"+kind)))
	}
	return block
}

const (
	// ownTimeout is the time within which the other side of an internal server must send a request or read a response. An
	// internal server is a server that is not for clients. A connection with an incomplete request occupies a slot that a
	// client could use.
	ownTimeout = "5s"
	// ownHeaders is the maximum length of a line in a request to an internal server. A client's headers can have 32 KiB,
	// and nginx may join their lines into one line. The other server adds the parts of the request that the key needs, and
	// the client's address.
	ownHeaders = "64k"
	// privateZone counts the connections of each address to the private server.
	privateZone = "private"
)

// privateServer returns the server for the agent and for the kubelet's probe. The Service for clients does not lead to
// this server.
func privateServer() conf.Block {
	plain := func(path, text string) conf.Directive {
		return exactly(path,
			conf.D("default_type", conf.Literal("text/plain")),
			conf.D("return", conf.Literal("200"), conf.Literal(text)))
	}
	// Only the agent may get stub_status. allow and deny could not protect the version, because nginx runs "return" first.
	// But the version is no secret.
	agentOnly := conf.Block{conf.D("allow", conf.Literal("127.0.0.1")), conf.D("deny", conf.Literal("all"))}
	zone := conf.D("limit_conn_zone", conf.Expression("$binary_remote_addr"), conf.Literal("zone="+privateZone+":1m"))
	return conf.Block{zone, conf.B("server", nil,
		conf.D("listen", conf.Int(layout.PrivatePort)),
		refusesMalformed(),
		conf.D("client_header_timeout", conf.Literal(ownTimeout)),
		conf.D("client_body_timeout", conf.Literal(ownTimeout)),
		conf.D("send_timeout", conf.Literal(ownTimeout)),
		// After a reload, a kept connection would lead to an old worker for a while.
		conf.D("keepalive_timeout", conf.Literal("0")),
		conf.D("limit_conn", conf.Literal(privateZone), conf.Literal("16")), // the kubelet and the agent need two
		plain("/healthz", "ok"),
		plain("/version", placeholder),
		exactly("/stub_status", append(agentOnly, conf.D("stub_status"))...),
		location("/", conf.D("return", conf.Literal("404"))),
	)}
}
