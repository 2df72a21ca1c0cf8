package cache

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
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
// nginx does not read Age. The first request for one that is good no longer waits until the promoter is making it anew; it
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
		conf.D("proxy_cache_path", conf.Literal(naming.MemoryTierCache), conf.Literal("levels=1:2"), conf.Literal("keys_zone="+memoryZone+":")+zone,
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
		conf.B("upstream", conf.Literals(promoterUpstream), conf.D("server", conf.Literal(naming.PromoterAddress))),
		conf.B("upstream", conf.Literals(disksUpstream), conf.D("server", conf.Literal(naming.DisksAddress)), conf.D("keepalive", conf.Literal("4"))),
		r.promoterServer(),
		r.disksServer(),
	}
}

// copiesOfOne is how often in a minute an object may be copied into memory, after three times at once: once in ten seconds, or twice while a
// copy is good where that is less. An object that finds no room would be tried with each request otherwise.
func copiesOfOne(t v1alpha1.MemoryTier) int {
	const perMinute = 6
	return max(perMinute, int(2*time.Minute/max(tuning.Duration(t.MaxExtraAge), time.Second)))
}

// renewals is how often in a minute a copy that is good no longer may be made anew, after three times at once: once in the time that a
// copy is good, and once a minute at least. Where the disk has no fresh one any more, the old one is served until that is found out, so it is tried no more often.
func renewals(t v1alpha1.MemoryTier) int {
	return max(1, int(time.Minute/max(tuning.Duration(t.MaxExtraAge), time.Second)))
}

// copies is how many objects a second may be taken into memory: as many of 128 KiB as fill the tier in ten seconds. Where more is asked for
// often than the tier has room for, it would be filled and emptied all the time, and the disks' hits would pay for it. A request that
// finds this limit reached does not count in its object's own, so what is asked for most comes first.
func copies(t v1alpha1.MemoryTier) int {
	const least, object, seconds = 10, 128 << 10, 10
	return max(least, int(tuning.TierFiles(t)/object/seconds))
}

// lookup is the location that answers from memory, and notices what is asked for often.
func (r renderer) lookup() conf.Directive {
	count := []conf.Argument{"zone=" + r.keyedZone("popular"), conf.Literal("nodelay")}
	if burst := ptr.Deref(r.Spec.MemoryTier.MinUses, 1) - 1; burst > 0 { // nginx takes no 0
		count = append(count, conf.Literal("burst="+strconv.Itoa(int(burst))))
	} else {
		count = count[:1]
	}
	block := conf.Block{
		conf.B("if", []conf.Argument{conf.Expression("(" + tierVariable), conf.Literal("!="), conf.Literal("1)")}, conf.D("return", conf.Literal("502"))),
		conf.D("limit_req", count...),
		conf.D("limit_req_dry_run", conf.OnOff(true)),
	}
	return conf.B("location", conf.Literals("/"), append(block, r.fromMemory(conf.Expression(elseVariable))...)...)
}

// madeAnew is the location that answers from memory with what is good no longer, while the promoter makes it anew.
func (r renderer) madeAnew() conf.Directive {
	return conf.B("location", conf.Literals(anew), append(conf.Block{conf.D("auth_request", conf.Literal(renew))}, r.fromMemory(conf.Literal(onDisk))...)...)
}

// fromMemory answers from memory, or goes on elsewhere.
func (r renderer) fromMemory(elsewhere conf.Argument) conf.Block {
	block := conf.Block{
		conf.D("error_page", conf.Literal("500"), conf.Literal("502"), conf.Literal("504"), conf.Literal("="), elsewhere),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		quiet(),
		conf.D("proxy_pass", conf.Literal("http://"+nowhere)),
		conf.D("proxy_cache", conf.Literal(memoryZone)),
		conf.D("proxy_cache_key", r.key()),
		conf.D("proxy_cache_use_stale", conf.Literal("updating")),
		// A response leaves in full packets and in one go. A location without tcp_nopush, such as a disk's, switches it off for
		// the rest of a connection: there, corked responses were late.
		conf.D("tcp_nopush", conf.OnOff(true)),
		conf.D("sendfile_max_chunk", conf.Size(max(tuning.TierObject(r.Spec.MemoryTier)+headerRoom, sendfileChunk))),
		conf.D("open_file_cache", conf.Literal("max=4096"), conf.Literal("inactive=2s")),
		conf.D("open_file_cache_valid", conf.Literal("2s")),
	}
	block = append(block, r.logs(agentapi.TagMemory)...)
	return append(block, r.headers(conf.Expression("$upstream_cache_status"), conf.Literal("memory"))...)
}

// quiet keeps a location from logging that there is no upstream, or that the tier has no room, which is nothing that anybody has
// to see to.
func quiet() conf.Directive {
	return conf.D("error_log", conf.Literal("/dev/null"), conf.Literal("crit"))
}

// mirrored has a request of a location told to another, in the background.
func mirrored() conf.Block {
	return conf.Block{conf.D("mirror", conf.Literal(promote)), conf.D("mirror_request_body", conf.OnOff(false))}
}

// toPromoter is the location that tells the promoter of an object that is asked for often and is not in memory.
func (r renderer) toPromoter() conf.Directive {
	unless := conf.B("if", []conf.Argument{conf.Expression("(" + hotVariable), conf.Literal("!="), conf.Literal("1)")}, conf.D("return", conf.Literal("204")))
	return conf.B("location", conf.Literals("=", promote), append(conf.Block{
		conf.D("internal"), unless,
		conf.D("proxy_set_header", conf.Literal(renewHeader), conf.Literal("")), // a client's own
	}, r.tellPromoter()...)...)
}

// toRenewal is the location that tells the promoter of an object in memory that is good no longer.
func (r renderer) toRenewal() conf.Directive {
	return conf.B("location", conf.Literals("=", renew), append(conf.Block{
		conf.D("internal"),
		conf.D("proxy_set_header", conf.Literal(renewHeader), conf.Literal("1")),
		// A client waits for this; should it take long, the disk is asked.
		conf.D("proxy_connect_timeout", conf.Literal("1s")), conf.D("proxy_read_timeout", conf.Literal("1s")),
	}, r.tellPromoter()...)...)
}

func (r renderer) tellPromoter() conf.Block {
	return append(conf.Block{
		conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+"$request_uri")),
		conf.D("proxy_method", conf.Literal("HEAD")), // which has no answer to read
		conf.D("proxy_pass_request_body", conf.OnOff(false)),
		conf.D("proxy_set_header", conf.Literal("Content-Length"), conf.Literal("")),
	}, r.askHeaders()...)
}

// askHeaders are for requests to a private server. A location that caches leaves out what the client has of the object.
func (r renderer) askHeaders() conf.Block {
	block := conf.Block{
		conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$host")),
		conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
	}
	if r.tellsScheme() {
		block = append(block, conf.D("proxy_set_header", conf.Literal(schemeHeader), conf.Expression(schemeVariable)))
	}
	return block
}

// promoterServer takes objects into memory. Its answer takes the way over its own port, so that it comes when the fetch has begun
// and requests for an old copy find that it is being made anew.
func (r renderer) promoterServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal(naming.PromoterAddress)),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		quiet(),
	}, r.scheme(schemeInRequest)...)
	return conf.B("server", nil, append(block,
		conf.B("location", conf.Literals("/"), append(mirrored(),
			// A connection takes no other request until the fetch is done, so it is for one only.
			conf.D("keepalive_timeout", conf.Literal("0")),
			conf.D("limit_req", "zone="+r.keyedZone("renewed"), conf.Literal("burst=2"), conf.Literal("nodelay")),
			conf.D("limit_req", "zone="+r.keyedZone("promoted"), conf.Literal("burst=2"), conf.Literal("nodelay")), // variants have one key
			conf.D("limit_req", conf.Literal("zone=copies"), conf.Literal("burst="+strconv.Itoa(copies(r.Spec.MemoryTier))), conf.Literal("nodelay")),
			conf.D("error_page", conf.Literal("503"), conf.Literal("="), conf.Literal(promoted)),            // others have told it already
			conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+promoted+"$is_args$args")))...), // a variable, or the path is put before the client's
		conf.B("location", conf.Literals("=", promoted), conf.D("return", conf.Literal("204"))),
		conf.B("location", conf.Literals("=", promote), append(conf.Block{
			conf.D("internal"),
			conf.D("limit_conn", r.keyedZone("promoting"), conf.Literal("1")),
			conf.D("proxy_pass", conf.Expression("http://"+disksUpstream+"$request_uri")),
			conf.D("proxy_method", conf.Literal("GET")),
			conf.D("proxy_pass_request_body", conf.OnOff(false)),
			conf.D("proxy_ignore_headers", conf.Literal("Cache-Control"), conf.Literal("Expires"), conf.Literal("X-Accel-Limit-Rate")),
			conf.D("proxy_cache", conf.Literal(memoryZone)),
			conf.D("proxy_cache_key", r.key()),
			conf.D("proxy_cache_revalidate", conf.OnOff(true)),
			conf.D("proxy_cache_use_stale", conf.Literal("updating")), // another is at it
			conf.D("proxy_read_timeout", conf.Literal("10s")),         // so long at most is an old copy served while a disk does not answer
		}, r.askHeaders()...)...),
		conf.B("location", conf.Literals(discard), conf.D("return", conf.Literal("204"))))...)
}

// disksServer gives the memory tier what is fresh on the disks, and nothing else.
func (r renderer) disksServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal(naming.DisksAddress)),
		// That there is no upstream is an error; what a disk's failure is told by is more.
		conf.D("error_log", conf.Literal("stderr"), conf.Literal("crit")),
		conf.D("error_log", toAgent("error"), conf.Literal("crit")),
	}, r.scheme(schemeInRequest)...)
	location := conf.Block{
		conf.D("proxy_pass", conf.Literal("http://"+nowhere)),
		conf.D("proxy_cache", conf.Expression(naming.Zone(diskVariable))),
		conf.D("proxy_cache_key", r.key()),
		conf.D("proxy_cache_min_uses", conf.Int(ptr.Deref(r.Spec.Cache.MinUses, 1))),
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Expression(discardVariable)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(copyVariable)),
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
