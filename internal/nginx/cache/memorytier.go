package cache

import (
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// memoryZone is the name of the memory tier's cache.
	memoryZone = "memory"
	// nowhere is an upstream whose only server is down, so that a lookup without a hit fails at once.
	nowhere = "nowhere"
	// promoterUpstream and disksUpstream lead to the private servers, which only the memory tier uses.
	promoterUpstream = "promoter"
	disksUpstream    = "disks"

	// onDisk is the location that answers from the disk of the key. onDiskHead is the same for HEAD.
	onDisk     = "@disk"
	onDiskHead = "@disk_head"

	renewing = "@renewing"
	promote  = "/.cachenode-promote"
	renew    = "/.cachenode-renew"
	promoted = "/.cachenode-promoted"
	discard  = "@discard"

	elseVariable    = "$not_in_memory"
	renewVariable   = "$renewed"
	newVariable     = "$is_new"
	renewHeader     = "X-CacheNode-Renew"
	renewInRequest  = "$http_x_cachenode_renew"
	hotVariable     = "$is_hot"
	discardVariable = "$discard"
	schemeVariable  = "$client_scheme"
	schemeHeader    = "X-CacheNode-Scheme"
	schemeInRequest = "$http_x_cachenode_scheme"
)

// tier is the part of the configuration with the memory tier. It answers from memory, and passes requests for objects
// that are not in memory on.
type tier struct{ door }

// noServer returns the upstream nowhere.
func noServer() conf.Directive {
	return conf.B("upstream", conf.Literals(nowhere), conf.D("server", conf.Literal("127.0.0.1:9"), conf.Literal("down")))
}

func (n node) hasMemoryTier() bool { return len(n.disks) > 0 && effective.HasMemoryTier(n.Spec) }

// key returns the cache key. The memory tier and other pods may send requests over another scheme than the client's.
// The scheme in the key then comes from schemeVariable.
func (s site) key() conf.Expression {
	key := s.cacheKey()
	if s.tellsScheme() {
		return conf.Expression(strings.Replace(string(key), "$scheme", schemeVariable, 1))
	}
	return key
}

// tellsScheme returns true if the key contains the client's scheme, and a server gets requests over another scheme.
func (s site) tellsScheme() bool {
	isSecure := s.Spec.Listen.TLS != nil || s.ofRoutes && routed{s.node}.isSecure()
	return (s.hasMemoryTier() && isSecure || s.isSharded()) &&
		strings.Contains(string(s.cacheKey()), "$scheme")
}

// scheme returns the directive that sets schemeVariable for the key.
func (s site) scheme(from conf.Expression) conf.Block {
	if !s.tellsScheme() {
		return nil
	}
	return conf.Block{set(schemeVariable, from)}
}

// keyedZone returns the name of a zone that counts by key. The name contains a hash of the expression for the key: on
// a reload, nginx refuses a zone with the same name and another expression.
func (s site) keyedZone(name string) conf.Literal {
	return conf.Literal(name + "_" + digest(string(s.key())))
}

// memoryCache returns the cache of the memory tier.
func (n node) memoryCache() conf.Block {
	if !n.hasMemoryTier() {
		return nil
	}
	t := n.Spec.MemoryTier
	return conf.Block{
		conf.D("proxy_cache_path",
			conf.Literal(layout.MemoryTierCache),
			conf.Literal("levels=1:2"),
			conf.Literal("keys_zone="+memoryZone+":")+conf.Size(effective.TierKeys(t)),
			"max_size="+conf.Offset(effective.TierFiles(t)),
			"min_free="+conf.Offset(effective.TierFree(t)),
			"inactive="+conf.Seconds(effective.TierInactive(t)),
			conf.Literal("use_temp_path=off")),
		conf.D("limit_req_log_level", conf.Literal("info")),
		conf.D("limit_conn_log_level", conf.Literal("info")),
	}
}

// memoryTier returns the directives that the tier needs in addition to its cache and the locations of the public
// server.
//
// nginx first looks a request up in memory. Without a hit there, the lookup fails because it has no upstream, and
// error_page sends the request to its disk. A hit on the disk is then served in the same way as without the tier.
//
// limit_req runs as a dry run and counts how often each object is requested. If an object is requested often enough
// and is not in memory, a mirror request tells the promoter. The promoter answers at once, so that no client waits.
// Its own mirror request then fetches and stores the object, one fetch at a time for each object. The promoter gets
// only HITs of the disks: the server that answers the promoter has no upstream, so no request of the promoter reaches
// the origin. If an object is too large, its response has an X-Accel-Redirect, at which nginx stops reading.
//
// X-Accel-Expires defines how long a copy is fresh, because nginx does not read Age; see copySeconds. The first
// request for an expired copy waits until the promoter has begun to renew the copy. That request gets the expired
// copy, and so do all requests that come before the renewal ends. None of these requests waits for a disk, unless the
// promoter mistakes the expired copy for a fresh copy. That can happen in two cases: the clock of the promoter's
// worker is behind, or the request opened the file just before a renewal replaced it.
func (m tier) memoryTier() conf.Block {
	if !m.hasMemoryTier() {
		return nil
	}
	t := m.Spec.MemoryTier
	zone := conf.Size(effective.TierKeys(t))
	rate := 6 * ptr.Deref(t.MinUses, 1) // per minute, which is minUses in ten seconds
	length := conf.Expression("$upstream_http_content_length")
	if m.hasSlices() {
		length = "$sent_http_content_length" // of the object, not of its first slice
	}
	return append(core{m.site}.copyMap(), conf.Block{
		conf.D("limit_req_zone",
			m.key(),
			"zone="+m.keyedZone("popular")+":"+zone,
			conf.Literal("rate="+strconv.Itoa(int(rate))+"r/m")),
		conf.D("limit_conn_zone", m.key(), "zone="+m.keyedZone("promoting")+":1m"),
		conf.D("limit_req_zone",
			m.key(),
			"zone="+m.keyedZone("promoted")+":1m",
			conf.Literal("rate="+strconv.Itoa(copiesOfOne(t))+"r/m")),
		conf.Map(renewInRequest, renewVariable,
			conf.Row(conf.Literal("1"), m.key()), conf.D("default", conf.Literal(""))), // an empty key is not limited
		conf.D("limit_req_zone",
			conf.Expression(renewVariable),
			"zone="+m.keyedZone("renewed")+":1m",
			conf.Literal("rate="+strconv.Itoa(renewals(t))+"r/m")),
		conf.Map(renewInRequest, newVariable,
			conf.Row(conf.Literal("1"), conf.Literal("")), conf.D("default", conf.Literal("1"))),
		conf.D("limit_req_zone",
			conf.Expression(newVariable),
			conf.Literal("zone=copies:1m"),
			conf.Literal("rate="+strconv.Itoa(copies(t))+"r/s")),
		conf.Map(plainVariable+":$limit_req_status", hotVariable,
			conf.Row(conf.Literal("1:REJECTED_DRY_RUN"), conf.Literal("1")), conf.D("default", conf.Literal(""))),
		conf.Map("$upstream_cache_status", elseVariable,
			conf.Row(conf.Literal("EXPIRED"), conf.Literal(renewing)), conf.D("default", m.place())),
		conf.Map(copyVariable+":$status:"+length+":"+strictVariable, discardVariable,
			conf.D("default", conf.Literal(discard)),
			conf.Row(conf.Expression("~^[1-9][0-9]*:(?:304:.*|200:"+atMost(effective.TierObject(t))+"):$"), conf.Literal(""))),
		// A copy in memory can outlive the object's freshness.
		conf.Map(controlInAnswer, strictVariable,
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression(strict), conf.Literal("1"))),
		m.copySeconds(),
		noServer(),
		conf.B("upstream", conf.Literals(promoterUpstream), conf.D("server", conf.Literal("unix:"+layout.PromoterSocket))),
		conf.B("upstream", conf.Literals(disksUpstream),
			conf.D("server", conf.Literal("unix:"+layout.DisksSocket)),
			conf.D("keepalive", conf.Literal("4"))),
		m.promoterServer(),
		m.disksServer(),
	}...)
}
