package cache

import (
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

const (
	// memoryZone is the memory tier's cache, popularZone the list of objects that are asked for often.
	memoryZone  = "memory"
	popularZone = "popular"
	// nowhere is an upstream without a server that is up: what is looked up in a cache and not found fails at once.
	nowhere = "nowhere"
	// disksUpstream is the server below, to which only the memory tier leads.
	disksUpstream = "disks"

	onDisk  = "@disk"
	promote = "/.cachenode-promote"
	store   = "@store"

	tierVariable    = "$memory_tier"
	promoteVariable = "$promote"
	copyVariable    = "$copy_seconds"
	schemeVariable  = "$client_scheme"
	schemeHeader    = "X-CacheNode-Scheme"
)

func (r renderer) hasMemoryTier() bool { return len(r.disks) > 0 && tuning.HasMemoryTier(r.Spec) }

// key is the cache key. What the memory tier asks itself for comes without TLS, whatever its client's scheme is.
func (r renderer) key() conf.Expression {
	key := cacheKey(r.Spec.Cache.Key)
	if r.tellsScheme() {
		return conf.Expression(strings.Replace(string(key), "$scheme", schemeVariable, 1))
	}
	return key
}

func (r renderer) tellsScheme() bool {
	return r.hasMemoryTier() && r.Spec.Listen.TLS != nil && strings.Contains(string(cacheKey(r.Spec.Cache.Key)), "$scheme")
}

// scheme notes the client's scheme, for the key.
func (r renderer) scheme(from conf.Expression) conf.Block {
	if !r.tellsScheme() {
		return nil
	}
	return conf.Block{conf.D("set", conf.Expression(schemeVariable), from)}
}

// memoryTier is what the tier needs beside the locations of the public server.
//
// A request is looked up in memory; what is not there fails without an upstream, and goes to its disk as an error page,
// so that a disk's hit takes the same way as without the tier. There, limit_req counts in a dry run how often the object is
// asked for. Often enough, and a mirror request in the background asks for its size (HEAD), and the answer's
// X-Accel-Redirect leads on to the location that stores it, if it is small enough. All it is ever given are HITs of the
// disks: a server without an upstream of its own answers, so nothing of this reaches the origin. How long a copy is good is
// X-Accel-Expires, as nginx does not read Age.
func (r renderer) memoryTier() conf.Block {
	if !r.hasMemoryTier() {
		return nil
	}
	t := r.Spec.MemoryTier
	zone := conf.Size(tuning.TierKeys(t))
	rate := 6 * ptr.Deref(t.MinUses, 1) // a minute, so that they are minUses in ten seconds
	seconds := conf.Seconds(tuning.Duration(t.MaxExtraAge))
	lookedUp := conf.B("map", []conf.Argument{
		conf.Expression("$request_method:$http_authorization$http_content_length$http_transfer_encoding"), conf.Expression(tierVariable),
	}, conf.Row(conf.Literal("GET:"), conf.Literal("1")), conf.Row(conf.Literal("HEAD:"), conf.Literal("1")), conf.D("default", conf.Literal("")))
	lookedUp.Comment = "What is looked up in the memory tier."
	return conf.Block{
		conf.D("proxy_cache_path", conf.Literal(naming.MemoryTierCache), conf.Literal("levels=1:2"), conf.Literal("keys_zone="+memoryZone+":")+zone,
			"max_size="+conf.Offset(tuning.TierFiles(t)), "inactive="+conf.Seconds(tuning.Duration(t.Inactive)), conf.Literal("use_temp_path=off")),
		conf.D("limit_req_zone", r.key(), "zone="+popularZone+":"+zone, conf.Literal("rate="+strconv.Itoa(int(rate))+"r/m")),
		conf.D("limit_req_log_level", conf.Literal("info")),
		lookedUp,
		conf.B("map", []conf.Argument{conf.Expression("$request_method:$upstream_cache_status:$status:$upstream_http_content_length"), conf.Expression(promoteVariable)},
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^HEAD:HIT:200:"+atMost(tuning.TierObject(t))+"$"), conf.Literal(store))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_cache_status:$status"), conf.Expression(copyVariable)},
			conf.D("default", conf.Literal("0")),
			conf.Row(conf.Literal("HIT:200"), seconds[:len(seconds)-1])),
		conf.B("upstream", conf.Literals(nowhere), conf.D("server", conf.Literal("127.0.0.1:9"), conf.Literal("down"))),
		conf.B("upstream", conf.Literals(disksUpstream), conf.D("server", conf.Literal(naming.DisksAddress)), conf.D("keepalive", conf.Literal("4"))),
		r.disksServer(),
	}
}

// lookup is the location that answers from memory.
func (r renderer) lookup() conf.Directive {
	block := conf.Block{
		conf.B("if", []conf.Argument{conf.Expression("(" + tierVariable), conf.Literal("!="), conf.Literal("1)")}, conf.D("return", conf.Literal("502"))),
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Literal(onDisk)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		quiet(),
		conf.D("proxy_pass", conf.Literal("http://"+nowhere)),
		conf.D("proxy_cache", conf.Literal(memoryZone)),
		conf.D("proxy_cache_key", r.key()),
		conf.D("sendfile", conf.OnOff(true)),
		conf.D("tcp_nopush", conf.OnOff(true)),
		conf.D("open_file_cache", conf.Literal("max=4096"), conf.Literal("inactive=10s")),
		conf.D("open_file_cache_valid", conf.Literal("10s")),
	}
	block = append(block, r.logs(agentapi.TagMemory)...)
	return conf.B("location", conf.Literals("/"), append(block, r.headers(conf.Expression("$upstream_cache_status"), conf.Literal("memory"))...)...)
}

// quiet keeps a location from logging that there is no upstream.
func quiet() conf.Directive {
	return conf.D("error_log", conf.Literal("/dev/null"), conf.Literal("emerg"))
}

// counts makes the location of a disk one that notices what is asked for often.
func (r renderer) counts() conf.Block {
	return conf.Block{
		conf.D("limit_req", conf.Literal("zone="+popularZone), conf.Literal("burst="+strconv.Itoa(int(ptr.Deref(r.Spec.MemoryTier.MinUses, 1)-1))), conf.Literal("nodelay")),
		conf.D("limit_req_dry_run", conf.OnOff(true)),
		conf.D("mirror", conf.Literal(promote)),
		conf.D("mirror_request_body", conf.OnOff(false)),
	}
}

// promotion is the locations that take an object into memory.
func (r renderer) promotion() conf.Block {
	fetch := func() conf.Block {
		block := conf.Block{
			conf.D("proxy_pass", conf.Expression("http://"+disksUpstream+"$request_uri")),
			conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$host")),
			conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
		}
		for _, header := range []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
			block = append(block, conf.D("proxy_set_header", conf.Literal(header), conf.Literal("")))
		}
		if r.tellsScheme() {
			block = append(block, conf.D("proxy_set_header", conf.Literal(schemeHeader), conf.Expression(schemeVariable)))
		}
		return append(block, quiet())
	}
	return conf.Block{
		conf.B("location", conf.Literals("=", promote), append(conf.Block{
			conf.D("internal"),
			conf.B("if", []conf.Argument{conf.Expression("($limit_req_status"), conf.Literal("!="), conf.Literal("REJECTED_DRY_RUN)")}, conf.D("return", conf.Literal("204"))),
			conf.D("proxy_method", conf.Literal("HEAD")),
			conf.D("proxy_pass_request_body", conf.OnOff(false)),
		}, fetch()...)...),
		conf.B("location", conf.Literals(store), append(fetch(),
			conf.D("proxy_pass_request_body", conf.OnOff(false)),
			conf.D("proxy_ignore_headers", conf.Literal("Cache-Control"), conf.Literal("Expires")),
			conf.D("proxy_cache", conf.Literal(memoryZone)),
			conf.D("proxy_cache_key", r.key()),
			conf.D("proxy_cache_revalidate", conf.OnOff(true)),
			conf.D("proxy_cache_lock", conf.OnOff(true)))...),
	}
}

// disksServer gives the memory tier what is fresh on the disks, and nothing else.
func (r renderer) disksServer() conf.Directive {
	block := append(conf.Block{conf.D("listen", conf.Literal(naming.DisksAddress))}, r.scheme("$http_"+conf.Expression(strings.ToLower(strings.ReplaceAll(schemeHeader, "-", "_"))))...)
	location := conf.Block{
		conf.D("proxy_pass", conf.Literal("http://"+nowhere)),
		conf.D("proxy_cache", conf.Expression(naming.Zone(diskVariable))),
		conf.D("proxy_cache_key", r.key()),
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Expression(promoteVariable)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(copyVariable)),
		quiet(),
	}
	return conf.B("server", nil, append(block, conf.B("location", conf.Literals("/"), append(location, r.diskIO(diskVariable)...)...))...)
}

// atMost is a regular expression for the decimal numbers from 0 to n, without leading zeros; it has no braces, as nginx's
// syntax gives those a meaning.
func atMost(n int64) string {
	digits := strconv.FormatInt(n, 10)
	alternatives := []string{digits}
	for i, d := range digits {
		rest := strings.Repeat("[0-9]", len(digits)-i-1)
		least := '0'
		if i == 0 && len(digits) > 1 {
			least = '1'
		}
		switch {
		case d == least+1:
			alternatives = append(alternatives, digits[:i]+string(least)+rest)
		case d > least:
			alternatives = append(alternatives, digits[:i]+"["+string(least)+"-"+string(d-1)+"]"+rest)
		}
	}
	if len(digits) > 1 {
		alternatives = append(alternatives, "[0-9]"+strings.Repeat("[0-9]?", len(digits)-2))
	}
	return "(" + strings.Join(alternatives, "|") + ")"
}
