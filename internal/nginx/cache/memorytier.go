package cache

import (
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

const (
	// memoryZone is the memory tier's cache.
	memoryZone = "memory"
	// nowhere is an upstream without a server that is up: what is looked up in a cache and not found fails at once.
	nowhere = "nowhere"
	// promoter and disksUpstream are the private servers, to which only the memory tier leads.
	promoterUpstream = "promoter"
	disksUpstream    = "disks"

	onDisk   = "@disk"
	anew     = "@anew"
	promote  = "/.cachenode-promote"
	renew    = "/.cachenode-renew"
	promoted = "/.cachenode-promoted"
	discard  = "@discard"

	// sendfileChunk is nginx's default; nginx counts the header of a response in it.
	sendfileChunk = 2 << 20
	headerRoom    = 64 << 10

	tierVariable    = "$memory_tier"
	elseVariable    = "$not_in_memory"
	renewVariable   = "$renewed"
	newVariable     = "$is_new"
	renewHeader     = "X-CacheNode-Renew"
	renewInRequest  = "$http_x_cachenode_renew"
	hotVariable     = "$is_hot"
	discardVariable = "$discard"
	copyVariable    = "$copy_seconds"
	schemeVariable  = "$client_scheme"
	schemeHeader    = "X-CacheNode-Scheme"
	schemeInRequest = "$http_x_cachenode_scheme"
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

// keyedZone is the name of a zone that is counted in by key: the running nginx takes no other key for the same name.
func (r renderer) keyedZone(name string) conf.Literal {
	return conf.Literal(name + "_" + digest(string(r.key())))
}

// memoryTier is what the tier needs beside the locations of the public server.
//
// A request is looked up in memory; what is not there fails without an upstream, and goes to its disk as an error page, so
// that a disk's hit takes the same way as without the tier. limit_req counts in a dry run how often each object is asked
// for. Often enough, and not in memory, and a mirror request tells the promoter, which answers at once, so that no client
// waits, and has a mirror request of its own, which fetches and stores the object, one at a time for each. All it is ever
// given are HITs of the disks: the server that answers has no upstream, so nothing of this reaches the origin. What is too
// large comes with an X-Accel-Redirect, at which nginx reads no further. How long a copy is good is X-Accel-Expires, as
// nginx does not read Age. The first request for one that is good no longer waits until the promoter is renewing it; it
// and those that come until that is done have the old one, and none of them waits for a disk.
func (r renderer) memoryTier() conf.Block {
	if !r.hasMemoryTier() {
		return nil
	}
	t := r.Spec.MemoryTier
	zone := conf.Size(tuning.TierKeys(t))
	rate := 6 * ptr.Deref(t.MinUses, 1) // a minute, so that they are minUses in ten seconds
	seconds := strings.TrimSuffix(string(conf.Seconds(tuning.Duration(t.MaxExtraAge))), "s")
	lookedUp := conf.B("map", []conf.Argument{
		conf.Expression("$request_method:$http_authorization$http_content_length$http_transfer_encoding"), conf.Expression(tierVariable),
	}, conf.Row(conf.Literal("GET:"), conf.Literal("1")), conf.Row(conf.Literal("HEAD:"), conf.Literal("1")), conf.D("default", conf.Literal("")))
	lookedUp.Comment = "What is looked up in the memory tier."
	return conf.Block{
		conf.D("proxy_cache_path", conf.Literal(layout.MemoryTierCache), conf.Literal("levels=1:2"), conf.Literal("keys_zone="+memoryZone+":")+zone,
			"max_size="+conf.Offset(tuning.TierFiles(t)), "min_free="+conf.Offset(tuning.TierFree(t)),
			"inactive="+conf.Seconds(tuning.TierInactive(t)), conf.Literal("use_temp_path=off")),
		conf.D("limit_req_zone", r.key(), "zone="+r.keyedZone("popular")+":"+zone, conf.Literal("rate="+strconv.Itoa(int(rate))+"r/m")),
		conf.D("limit_req_log_level", conf.Literal("info")),
		conf.D("limit_conn_zone", r.key(), "zone="+r.keyedZone("promoting")+":1m"),
		conf.D("limit_conn_log_level", conf.Literal("info")),
		conf.D("limit_req_zone", r.key(), "zone="+r.keyedZone("promoted")+":1m", conf.Literal("rate="+strconv.Itoa(copiesOfOne(t))+"r/m")),
		conf.B("map", []conf.Argument{conf.Expression(renewInRequest), conf.Expression(renewVariable)},
			conf.Row(conf.Literal("1"), r.key()), conf.D("default", conf.Literal(""))), // an empty key is not limited
		conf.D("limit_req_zone", conf.Expression(renewVariable), "zone="+r.keyedZone("renewed")+":1m", conf.Literal("rate="+strconv.Itoa(renewals(t))+"r/m")),
		conf.B("map", []conf.Argument{conf.Expression(renewInRequest), conf.Expression(newVariable)},
			conf.Row(conf.Literal("1"), conf.Literal("")), conf.D("default", conf.Literal("1"))),
		conf.D("limit_req_zone", conf.Expression(newVariable), conf.Literal("zone=copies:1m"), conf.Literal("rate="+strconv.Itoa(copies(t))+"r/s")),
		lookedUp,
		conf.B("map", []conf.Argument{conf.Expression(tierVariable + ":$limit_req_status"), conf.Expression(hotVariable)},
			conf.Row(conf.Literal("1:REJECTED_DRY_RUN"), conf.Literal("1")), conf.D("default", conf.Literal(""))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_cache_status"), conf.Expression(elseVariable)},
			conf.Row(conf.Literal("EXPIRED"), conf.Literal(anew)), conf.D("default", conf.Literal(onDisk))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_cache_status:$status:$upstream_http_content_length"), conf.Expression(discardVariable)},
			conf.D("default", conf.Literal(discard)),
			conf.Row(conf.Expression("~^HIT:(304:|200:"+atMost(tuning.TierObject(t))+"$)"), conf.Literal(""))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_cache_status:$status"), conf.Expression(copyVariable)},
			conf.D("default", conf.Literal("0")),
			conf.Row(conf.Literal("HIT:200"), conf.Literal(seconds)), conf.Row(conf.Literal("HIT:304"), conf.Literal(seconds))),
		conf.B("upstream", conf.Literals(nowhere), conf.D("server", conf.Literal("127.0.0.1:9"), conf.Literal("down"))),
		conf.B("upstream", conf.Literals(promoterUpstream), conf.D("server", conf.Literal(layout.PromoterAddress))),
		conf.B("upstream", conf.Literals(disksUpstream), conf.D("server", conf.Literal(layout.DisksAddress)), conf.D("keepalive", conf.Literal("4"))),
		r.promoterServer(),
		r.disksServer(),
	}
}
