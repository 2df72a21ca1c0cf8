package cache

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

const (
	// otherDisk is the location for requests whose own disk fails. The next disk stands in with its cache and its lock,
	// so that the origin gets one request for an object and not one from each client.
	otherDisk = "@other_disk"
	// uncached is the location for requests that no disk can serve.
	uncached = "@uncached"
	// uncachedZone counts the requests that their own disk cannot serve.
	uncachedZone = "uncached"
	// clientsZone counts the connections of each client.
	clientsZone = "clients"
	// busy is the location for requests beyond the bound of cappedName.
	busy = "@busy"
)

// publicServers are the servers that clients reach. If the spec lists hosts, a request for any other host gets 421.
func (r renderer) publicServers() conf.Block {
	block := conf.Block{
		// One key for each port, so one count for all workers.
		conf.D("limit_conn_zone", conf.Expression("$server_port"), conf.Literal("zone="+uncachedZone+":1m")),
		conf.B("map", []conf.Argument{conf.Expression("$limit_conn_status"), conf.Expression("$retry_after")},
			conf.D("default", conf.Literal("")),
			conf.D("REJECTED", conf.Literal("1"))),
	}
	block = append(block, r.requestMaps()...)
	if r.limitsClients() {
		block = append(block, conf.D("limit_conn_zone",
			conf.Expression("$binary_remote_addr"), conf.Literal("zone="+clientsZone+":10m")))
	}
	options := []conf.Argument{conf.Int(ptr.Deref(r.Spec.Listen.Port, 0)), conf.Literal("default_server")}
	if ptr.Deref(r.Spec.Listen.ReusePort, true) {
		options = append(options, conf.Literal("reuseport"))
	}
	listen := conf.Block{conf.D("listen", options...)}
	if r.Spec.Listen.TLS != nil {
		block = append(block, r.listenerTLS()...)
		secure := slices.Clone(options)
		secure[0] = conf.Int(ptr.Deref(r.Spec.Listen.TLS.Port, 0))
		listen = append(listen, conf.D("listen", append(secure, conf.Literal("ssl"))...))
	}
	if len(r.Spec.Hosts) == 0 {
		return append(block, r.server(append(listen, conf.D("server_name", conf.Literal("_")))))
	}
	var names []conf.Argument
	for _, h := range r.Spec.Hosts {
		names = append(names, conf.Literal(h))
	}
	return append(block,
		conf.B("server", nil, append(slices.Concat(listen, r.clientTimeouts()), // the default server awaits the header
			conf.D("server_name", conf.Literal("_")),
			conf.D("return", conf.Literal("421")))...),
		r.server(append(named(listen), conf.D("server_name", names...))))
}

// named are the listen directives of a server that is not the default. Parameters of a socket may stand only once.
func named(listen conf.Block) conf.Block {
	var block conf.Block
	for _, d := range listen {
		args := []conf.Argument{d.Args[0]}
		if d.Args[len(d.Args)-1] == conf.Argument(conf.Literal("ssl")) {
			args = append(args, conf.Literal("ssl"))
		}
		block = append(block, conf.D("listen", args...))
	}
	return block
}

// clientTimeouts bound the time that a client may take for a request. A connection with an incomplete request occupies
// a slot that another client could use.
func (r renderer) clientTimeouts() conf.Block {
	const header, body = "10s", "30s"
	return conf.Block{
		conf.D("client_header_timeout", conf.Time(tuning.Duration(cmp.Or(r.Spec.Listen.HeaderTimeout, header)))),
		conf.D("client_body_timeout", conf.Time(tuning.Duration(cmp.Or(r.Spec.Listen.BodyTimeout, body)))),
	}
}

func (r renderer) limitsClients() bool { return r.Spec.Listen.MaxConnectionsPerClient != nil }

// clientLimit bounds the connections of each client.
func (r renderer) clientLimit() conf.Block {
	if !r.limitsClients() {
		return nil
	}
	full := conf.Block{
		// $upstream_addr ends with the name of the group if no server can take another request.
		conf.B("if",
			[]conf.Argument{
				conf.Expression("($upstream_addr"), conf.Literal("!~"), conf.Expression(cappedName + "$)"),
			},
			conf.D("return", conf.Literal("502"))),
		conf.D("add_header", conf.Literal("Retry-After"), conf.Literal("1"), conf.Literal("always")),
	}
	full = slices.Concat(full,
		r.logs(agentapi.TagUncached),
		r.headers(conf.Literal("UNCACHED"), conf.Expression(diskVariable)))
	return conf.Block{
		conf.D("limit_conn", conf.Literal(clientsZone), conf.Int(*r.Spec.Listen.MaxConnectionsPerClient)),
		conf.D("limit_conn_status", conf.Literal("429")),
		conf.B("location", conf.Literals(busy), append(full, conf.D("return", conf.Literal("503")))...),
	}
}

// listenerTLS is what clients see over TLS.
func (r renderer) listenerTLS() conf.Block {
	return conf.Block{
		conf.D("ssl_certificate", conf.Literal(layout.ListenerCertificate(r.Facts.Certificate))),
		conf.D("ssl_certificate_key", conf.Literal(layout.ListenerKey(r.Facts.Certificate))),
		conf.D("ssl_protocols", conf.Literal("TLSv1.2"), conf.Literal("TLSv1.3")),
		conf.D("ssl_session_cache", conf.Literal("shared:listener:10m")),
		conf.D("ssl_session_timeout", conf.Literal("1d")),
		conf.D("ssl_session_tickets", conf.OnOff(false)),
	}
}

// server is the cache itself.
//
// error_page catches what fails before the response's header is sent. An I/O error of the disk and a full queue of its
// thread pool both end as 500. The request then goes to another disk and, if that fails too, to the origin. The
// origin's own errors pass through, as proxy_intercept_errors is off.
func (r renderer) server(listen conf.Block) conf.Directive {
	block := slices.Concat(listen, r.clientTimeouts(), r.clientLimit(), r.normalized(), r.toOrigin())
	for _, h := range r.headers(conf.Literal(""), conf.Literal("")) { // clients do not see the origin's own
		block = append(block, conf.D("proxy_hide_header", h.Args[0]))
	}
	root := conf.Literals("/")
	if len(r.disks) == 0 {
		return conf.B("server", nil, append(block, r.uncached(root))...)
	}
	var popular conf.Block
	if r.hasMemoryTier() {
		block = slices.Concat(block, r.scheme("$scheme"), conf.Block{r.lookup(), r.madeAnew(), r.toPromoter(), r.toRenewal()})
		root, popular = conf.Literals(onDisk), mirrored()
	}
	if len(r.disks) == 1 {
		only := r.cached(root, diskVariable, agentapi.TagCached, uncached)
		only.Block = append(only.Block, popular...)
		block = append(block, only)
	} else {
		first := r.cached(root, diskVariable, agentapi.TagCached, otherDisk)
		first.Block = append(first.Block, popular...)
		// The other disk may fail as well.
		first.Block = append(first.Block, conf.D("recursive_error_pages", conf.OnOff(true)))
		second := r.cached(conf.Literals(otherDisk), otherDiskVariable, agentapi.TagOtherDisk, uncached)
		second.Block = r.capped(second.Block)
		block = append(block, first, second)
	}
	return conf.B("server", nil, append(block, r.uncached(conf.Literals(uncached)))...)
}

// cached is a location that serves from a disk, or passes the request on to the location next if the disk fails.
//
// A MISS touches a dead disk only after the origin has answered, when it is too late to fail over. Each request
// therefore first checks that the disk's folder exists, which costs one stat from memory.
func (r renderer) cached(location []conf.Argument, disk conf.Expression, tag, next string) conf.Directive {
	alive := conf.B("if", []conf.Argument{conf.Expression("(!-d"), conf.Expression(layout.CacheDir(string(disk)) + ")")},
		conf.D("return", conf.Literal("500")))
	block := append(conf.Block{alive, r.pass()}, r.cachePolicy(disk)...)
	block = append(block, r.diskIO(disk)...)
	block = append(block, conf.D("error_page", conf.Literal("500"), conf.Literal("="), conf.Literal(next)))
	block = append(block, r.logs(tag)...)
	return conf.B("location", location, append(block, r.headers(conf.Expression("$upstream_cache_status"), disk)...)...)
}

// uncached is a location that passes requests to the origin, a limited number at once.
func (r renderer) uncached(location []conf.Argument) conf.Directive {
	block := r.capped(conf.Block{r.pass()})
	block = append(block, r.logs(agentapi.TagUncached)...)
	block = append(block, r.headers(conf.Literal("UNCACHED"), conf.Expression(diskVariable))...)
	return conf.B("location", location, block...)
}

// capped bounds how many requests at once a location takes that went past their own disk: by limit_conn or, if that
// bounds clients already, by an upstream of its own.
func (r renderer) capped(location conf.Block) conf.Block {
	if !r.limitsClients() {
		return append(location,
			conf.D("limit_conn", conf.Literal(uncachedZone), conf.Int(ptr.Deref(r.Spec.Origin.FallbackConcurrency, 1))),
			conf.D("add_header", conf.Literal("Retry-After"), conf.Expression("$retry_after"), conf.Literal("always")))
	}
	for i := range location {
		if location[i].Name == "proxy_pass" {
			location[i] = conf.D("proxy_pass", conf.Literal(r.Spec.Origin.Scheme+"://"+cappedName))
		}
	}
	return append(location,
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Literal(busy)),
		conf.D("recursive_error_pages", conf.OnOff(true)))
}

func (r renderer) pass() conf.Directive {
	return conf.D("proxy_pass", conf.Literal(r.Spec.Origin.Scheme+"://"+upstreamName))
}

func (r renderer) statusHeaders() bool { return ptr.Deref(r.Spec.Cache.StatusHeaders, true) }

// headers are the response headers that tell clients how the response came about.
func (r renderer) headers(status, disk conf.Argument) conf.Block {
	header := func(name string, value conf.Argument) conf.Directive {
		return conf.D("add_header", conf.Literal(name), value, conf.Literal("always"))
	}
	var block conf.Block
	if r.statusHeaders() {
		block = conf.Block{header("X-Cache", status), header("X-Cache-Disk", disk)}
	}
	if r.Spec.Cache.NodeHeader {
		block = append(block, header("X-Cache-Node", conf.Expression("$hostname")))
	}
	return block
}

func (r renderer) cachePolicy(disk conf.Expression) conf.Block {
	c := r.Spec.Cache
	block := conf.Block{
		conf.D("proxy_cache", conf.Expression(naming.Zone(string(disk)))),
		conf.D("proxy_cache_key", r.key()),
		conf.D("proxy_cache_bypass", conf.Expression(credentialsVariable), conf.Expression(bodyVariable)),
		conf.D("proxy_no_cache", conf.Expression(credentialsVariable), conf.Expression(bodyVariable)),
	}
	for _, v := range c.Valid {
		var args []conf.Argument
		for _, status := range v.Status {
			args = append(args, conf.Int(status))
		}
		block = append(block, conf.D("proxy_cache_valid", append(args, conf.Seconds(tuning.Duration(v.For)))...))
	}
	var methods []conf.Argument
	for _, m := range c.Methods {
		methods = append(methods, conf.Literal(m))
	}
	return append(block,
		conf.D("proxy_cache_methods", methods...),
		conf.D("proxy_cache_min_uses", conf.Int(ptr.Deref(c.MinUses, 1))),
		conf.D("proxy_cache_use_stale", failures(c.UseStale)...),
		conf.D("proxy_cache_background_update", conf.OnOff(ptr.Deref(c.BackgroundUpdate, true))),
		conf.D("proxy_cache_revalidate", conf.OnOff(ptr.Deref(c.Revalidate, true))),
		conf.D("proxy_cache_lock", conf.OnOff(ptr.Deref(c.Lock.Enabled, true))),
		conf.D("proxy_cache_lock_timeout", conf.Time(tuning.Duration(c.Lock.Timeout))),
		conf.D("proxy_cache_lock_age", conf.Time(tuning.Duration(c.Lock.Age))))
}

// diskIO gives reads, sendfile and writes of cache files to the disk's thread pool, or leaves them to the worker.
func (r renderer) diskIO(disk conf.Expression) conf.Block {
	io := r.Spec.IO
	var block conf.Block
	if r.usesThreads() {
		block = conf.Block{
			conf.D("aio", conf.Expression("threads="+naming.Pool(string(disk)))),
			conf.D("aio_write", conf.OnOff(ptr.Deref(io.AsyncWrite, true))),
		}
	}
	if ahead := tuning.ReadAhead(io); ahead > 0 {
		block = append(block, conf.D("read_ahead", conf.Size(ahead)))
	}
	if io.SendfileMaxChunk != nil {
		block = append(block, conf.D("sendfile_max_chunk", conf.Size(io.SendfileMaxChunk.Value())))
	}
	return block
}
