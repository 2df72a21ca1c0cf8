package cache

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// uncached is the location for requests whose disk cannot be used.
const uncached = "@uncached"

// publicServers are the servers that clients reach. Where the spec lists hosts, a request for any other gets 421.
func publicServers(in Input) conf.Block {
	options := []conf.Argument{conf.Int(ptr.Deref(in.Spec.Listen.Port, 0)), conf.Literal("default_server")}
	if ptr.Deref(in.Spec.Listen.ReusePort, true) {
		options = append(options, conf.Literal("reuseport"))
	}
	if len(in.Spec.Hosts) == 0 {
		return conf.Block{server(in, conf.D("listen", options...), conf.D("server_name", conf.Literal("_")))}
	}
	var names []conf.Argument
	for _, h := range in.Spec.Hosts {
		names = append(names, conf.Literal(h))
	}
	return conf.Block{
		conf.B("server", nil,
			conf.D("listen", options...),
			conf.D("server_name", conf.Literal("_")),
			conf.D("return", conf.Literal("421"))),
		server(in, conf.D("listen", options[0]), conf.D("server_name", names...)),
	}
}

// server is the cache itself.
//
// error_page catches what fails before the response's header is sent: an I/O error of the disk and a full queue of its
// thread pool both end as 500, and the request goes to the origin instead. The origin's own errors pass through, as
// proxy_intercept_errors is off. A MISS would touch a dead disk only when the origin has answered, too late to turn back;
// so each request first looks whether the disk's folder can be seen, which costs one stat from memory.
func server(in Input, listen, name conf.Directive) conf.Directive {
	pass := conf.D("proxy_pass", conf.Literal(in.Spec.Origin.Scheme+"://"+upstreamName))
	alive := conf.B("if", []conf.Argument{conf.Expression("(!-d"), conf.Expression(naming.CacheDir(diskVariable) + ")")},
		conf.D("return", conf.Literal("500")))
	cached := append(conf.Block{alive, pass}, cachePolicy(in.Spec.Cache)...)
	cached = append(cached, diskIO(in.Spec.IO)...)
	cached = append(cached, conf.D("error_page", conf.Literal("500"), conf.Literal("="), conf.Literal(uncached)))
	fallback := conf.Block{pass}
	block := append(conf.Block{listen, name}, toOrigin(in)...)
	if ptr.Deref(in.Spec.Cache.StatusHeaders, true) {
		for _, header := range []string{"X-Cache", "X-Cache-Disk", "X-Cache-Node"} {
			block = append(block, conf.D("proxy_hide_header", conf.Literal(header)))
		}
		cached = append(cached, statusHeaders(conf.Expression("$upstream_cache_status"))...)
		fallback = append(fallback, statusHeaders(conf.Literal("UNCACHED"))...)
	}
	block = append(block,
		conf.B("location", conf.Literals("/"), cached...),
		conf.B("location", conf.Literals(uncached), fallback...))
	return conf.B("server", nil, block...)
}

func statusHeaders(status conf.Argument) conf.Block {
	header := func(name string, value conf.Argument) conf.Directive {
		return conf.D("add_header", conf.Literal(name), value, conf.Literal("always"))
	}
	return conf.Block{
		header("X-Cache", status),
		header("X-Cache-Disk", conf.Expression(diskVariable)),
		header("X-Cache-Node", conf.Expression("$hostname")),
	}
}

func cachePolicy(c v1alpha1.CachePolicy) conf.Block {
	block := conf.Block{
		conf.D("proxy_cache", conf.Expression(naming.Zone(diskVariable))),
		conf.D("proxy_cache_key", cacheKey(c.Key)),
		// A response to a request with credentials is for its sender alone (RFC 9111, 3.5).
		conf.D("proxy_cache_bypass", conf.Expression("$http_authorization")),
		conf.D("proxy_no_cache", conf.Expression("$http_authorization")),
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

// diskIO hands reads, sendfile and writes of cache files to the thread pool of the request's disk.
func diskIO(io v1alpha1.IO) conf.Block {
	block := conf.Block{
		conf.D("aio", conf.Expression("threads="+naming.Pool(diskVariable))),
		conf.D("aio_write", conf.OnOff(ptr.Deref(io.AsyncWrite, true))),
		conf.D("sendfile", conf.OnOff(true)),
	}
	if io.SendfileMaxChunk != nil {
		block = append(block, conf.D("sendfile_max_chunk", conf.Size(io.SendfileMaxChunk.Value())))
	}
	return block
}
