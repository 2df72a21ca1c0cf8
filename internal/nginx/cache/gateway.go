package cache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

const (
	// gatewayUpstream leads to the gateway.
	gatewayUpstream = "gateway"
	// stateHeader tells the gateway that the cache has an expired copy, or that the client asked by HEAD for what the cache
	// does not have (stateHead). headAlone is the gateway's location for that.
	stateHeader    = "X-CacheNode-State"
	stateVariable  = "$asking_state"
	stateInRequest = "$http_x_cachenode_state"
	stateHead      = "HEAD"
	headAlone      = "@head_alone"
	// diskHeader names the disk whose cache asks. gatewayDisk is its value.
	diskHeader    = "X-CacheNode-Disk"
	diskInRequest = "$http_x_cachenode_disk"
	gatewayDisk   = "$asking_disk"
	// sharedHeader says how the gateway got a response: HIT if another request has fetched it.
	sharedHeader   = "X-CacheNode-Shared"
	sharedVariable = "$is_shared"
	// agedVariable is not empty for a response that another cache has kept for a time that nginx cannot subtract.
	agedVariable = "$is_aged"
	// ownOnly is not empty for a response that only the request that fetched it may have.
	ownOnly = "$own_only"
	// originHeader has the origin's own Cache-Control, or noControl if the origin sent none. A response that was stored
	// before the gateway existed has no such header.
	originHeader    = "X-CacheNode-Cache-Control"
	originInAnswer  = "$upstream_http_x_cachenode_cache_control"
	noControl       = "-"
	controlInAnswer = "$upstream_http_cache_control"

	// originVariable is the value of originHeader, controlVariable is the Cache-Control that counts for the cache,
	// storedVariable the one that the cache gets, and clientVariable the one that clients get.
	originVariable  = "$origin_control"
	controlVariable = "$control"
	storedVariable  = "$stored_control"
	clientVariable  = "$client_control"
	// strictVariable is not empty for objects that may not be served stale.
	strictVariable = "$must_revalidate"
	strict         = "~*(must-revalidate|proxy-revalidate|s-maxage)"

	// member and dictionary match a structured field (RFC 8941), which CDN-Cache-Control must be to count.
	member     = `[a-z*][a-z0-9_.*-]*(=([0-9.-]+|"[^"]*"|[a-z*][^ ,;"]*|[?][01]|:[^:]*:))?(;[^,]*)?`
	dictionary = `^\s*` + member + `(\s*,\s*` + member + `)*\s*$`

	// expired is the gateway's location for objects of which the cache has a stale copy, broken the one for a failure of
	// the origin then.
	expired = "@expired"
	broken  = "@broken"
)

// gateway is the private server between the caches of the disks and the origin.
//
// nginx serves a stale copy only as long as the stored response itself allows it by stale-while-revalidate and
// stale-if-error (RFC 5861). The gateway adds these to the Cache-Control of responses that have none and do not forbid
// stale copies (RFC 9111, section 4.2.4). It keeps the origin's own Cache-Control for clients. For a CDN,
// CDN-Cache-Control goes before Cache-Control (RFC 9213).
//
// nginx heeds stale-if-error only if it gets no response at all. If the cache has a stale copy, the gateway therefore
// closes the connection instead of passing on a server error. If that copy may not be served, the request goes to the
// origin once more, past the cache, and the client gets the origin's own error.
//
// Requests for an expired object that may not be served stale would all go to the origin at once, because nginx's lock
// is for objects that the cache does not have. The gateway has them wait for the first: it keeps the response for a
// second, with a lock. Those that get it from there do not store it again.
func (r renderer) gateway() conf.Block {
	if len(r.disks) == 0 {
		if r.hops() { // other pods' responses come through their gateways
			return conf.Block{clientControl()}
		}
		return nil
	}
	format, _ := r.sliceLog()
	lifetime, _ := r.lifetime()
	return append(slices.Concat(r.controlMaps(), r.redirects(), format, lifetime),
		conf.B("upstream", conf.Literals(gatewayUpstream),
			conf.D("server", conf.Literal("unix:"+layout.GatewaySocket)),
			conf.D("keepalive", conf.Int(ptr.Deref(r.Spec.Origin.Keepalive.Connections, 0))),
			conf.D("keepalive_requests", conf.Literal("100000"))),
		r.gatewayServer())
}

// controlMaps are the maps over Cache-Control.
func (r renderer) controlMaps() conf.Block {
	control := conf.Expression(controlVariable)
	while, ifError := windows(r.Spec.Cache)
	both := strings.Trim(while+", "+ifError, ", ")
	add := func(windows string) conf.Argument {
		if windows == "" {
			return control
		}
		return control + conf.Expression(", "+windows)
	}
	shared := conf.B("map",
		[]conf.Argument{conf.Expression("$upstream_http_x_cachenode_shared"), conf.Expression(sharedVariable)},
		conf.D("volatile"), // for each slice
		conf.D("default", conf.Literal("")), conf.Row(conf.Literal("HIT"), conf.Literal("1")))
	aged := conf.B("map",
		[]conf.Argument{
			conf.Expression("$upstream_http_cdn_cache_control:$upstream_http_age"), conf.Expression(agedVariable),
		},
		conf.D("volatile"),
		conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~.:0*[1-9]"), conf.Literal("1")))
	forOne := conf.B("map",
		[]conf.Argument{conf.Expression("$upstream_http_x_accel_expires:") + control, conf.Expression(ownOnly)},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^0:"), conf.Literal("1")),
		conf.Row(conf.Expression("~*(no-store|no-cache|private|max-age=0|s-maxage=0)"), conf.Literal("1")))
	origins := conf.Expression(originVariable)
	return conf.Block{
		shared, forOne, aged,
		conf.B("map",
			[]conf.Argument{
				conf.Expression(gatewayDisk + ":$upstream_cache_status:$request_method"), conf.Expression(stateVariable),
			},
			conf.D("volatile"), // the lookup in memory has evaluated it already
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~.:EXPIRED:"), conf.Literal("EXPIRED")),
			conf.Row(conf.Expression("~.:MISS:HEAD$"), conf.Literal(stateHead))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_http_cdn_cache_control"), control},
			conf.D("default", conf.Expression(controlInAnswer)),
			conf.Row(conf.Expression("~*"+dictionary), conf.Expression("$upstream_http_cdn_cache_control"))),
		conf.B("map", []conf.Argument{control, conf.Expression(storedVariable)},
			conf.Row(conf.Literal(""), conf.Literal(both)),
			conf.Row(conf.Expression(strict), control),
			conf.Row(conf.Expression("~*(no-store|no-cache|private)"), control),
			conf.Row(conf.Expression("~*stale-while-revalidate.*stale-if-error"), control),
			conf.Row(conf.Expression("~*stale-if-error.*stale-while-revalidate"), control),
			conf.Row(conf.Expression("~*stale-while-revalidate"), add(ifError)),
			conf.Row(conf.Expression("~*stale-if-error"), add(while)),
			conf.D("default", add(both))),
		conf.B("map", []conf.Argument{conf.Expression(controlInAnswer), origins},
			conf.Row(conf.Literal(""), conf.Literal(noControl)), conf.D("default", conf.Expression(controlInAnswer))),
		clientControl(),
	}
}

// clientControl gives clients the origin's own Cache-Control.
func clientControl() conf.Directive {
	answers := conf.Expression(originInAnswer)
	return conf.B("map", []conf.Argument{answers, conf.Expression(clientVariable)},
		conf.Row(conf.Literal(""), conf.Expression(controlInAnswer)),
		conf.Row(conf.Literal(noControl), conf.Literal("")),
		conf.D("default", answers))
}

// windows are the directives of RFC 5861 for responses without their own; "" for one that the spec switches off.
func windows(c v1alpha1.CachePolicy) (whileRevalidate, ifError string) {
	if s := int64(tuning.Duration(c.StaleWhileRevalidate).Seconds()); s > 0 {
		whileRevalidate = fmt.Sprintf("stale-while-revalidate=%d", s)
	}
	if s := int64(tuning.Duration(c.StaleIfError).Seconds()); s > 0 {
		ifError = fmt.Sprintf("stale-if-error=%d", s)
	}
	return whileRevalidate, ifError
}

// gatewayServer passes requests on as they come. The caches in front of it decide what X-Accel headers mean.
func (r renderer) gatewayServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.GatewaySocket)),
		refusesMalformed(),
		conf.D("keepalive_requests", conf.Literal("100000")),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$http_host")),
		conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(stateHeader), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(diskHeader), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(sliceHeader), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(fillHeader), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(formerHeader), conf.Literal("")),
		// Few reads and writes for a large body.
		conf.D("proxy_buffer_size", conf.Literal("16k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("64k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("128k")),
	}, r.reachOrigin()...)
	block = append(block, conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Buffering")...))
	block = append(block, passed(r.gatewayPasses("X-Accel-Expires"))...) // see lifetime
	block = append(block, r.gatewayHides()...)
	_, log := r.sliceLog()
	block = slices.Concat(block, r.toCache(), log)
	codes := conf.Literals(append(staleCodes(r.Spec.Cache), "=", broken)...)
	fetched := conf.Block{
		conf.D("error_page", conf.Literal("418"), conf.Literal("="), conf.Literal(expired)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal("EXPIRED)")},
			conf.D("return", conf.Literal("418"))),
		// nginx would fetch the whole object and store it. The cache passes the request on instead.
		conf.D("error_page", conf.Literal("421"), conf.Literal("="), conf.Literal(headAlone)),
		conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal(stateHead + ")")},
			conf.D("return", conf.Literal("421"))),
	}
	block = append(block, r.fillLocations()...)
	block = append(block, conf.B("location", conf.Literals(headAlone),
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Literal(pass)),
		conf.D("return", conf.Literal("204"))))
	return conf.B("server", nil, append(block,
		conf.B("location", conf.Literals("/"),
			append(slices.Concat(fetched, r.toFill()), conf.D("proxy_pass", r.origin(upstreamName)))...),
		conf.B("location", conf.Literals(expired), append(r.shared(),
			conf.D("proxy_intercept_errors", conf.OnOff(true)),
			conf.D("error_page", codes...),
			conf.D("proxy_pass", r.origin(upstreamName)))...),
		conf.B("location", conf.Literals(broken), conf.D("return", conf.Literal("444"))))...)
}

// gatewayHides are the origin's headers of the names that toCache adds.
func (r renderer) gatewayHides() (block conf.Block) {
	names := []string{"Cache-Control", originHeader, sharedHeader}
	if r.hasSlices() {
		for _, h := range copiedHeaders {
			names = append(names, h.name)
		}
	}
	for _, name := range names {
		block = append(block, conf.D("proxy_hide_header", conf.Literal(name)))
	}
	return block
}

// gatewayPasses returns the headers of a response that the gateway passes on and nginx would keep to itself.
func (r renderer) gatewayPasses(without ...string) []conf.Argument {
	if r.hasSlices() {
		without = append(without, "X-Accel-Redirect") // see redirects
	}
	return append(accelHeaders(without...), conf.Literal("Server"))
}

// toCache are the headers that the gateway adds to a response.
func (r renderer) toCache() conf.Block {
	control := conf.Expression(storedVariable)
	if r.hasSlices() {
		control = sentControl
	}
	_, lifetime := r.lifetime()
	return slices.Concat(conf.Block{
		conf.D("add_header", conf.Literal("Cache-Control"), control, conf.Literal("always")),
		conf.D("add_header", conf.Literal(originHeader), conf.Expression(originVariable), conf.Literal("always")),
	}, lifetime, r.redirect())
}

// staleCodes are the status codes of the origin instead of which a stale copy is served.
func staleCodes(c v1alpha1.CachePolicy) []string {
	if c.UseStale == nil {
		return []string{"500", "502", "503", "504"}
	}
	codes := []string{"502", "504"} // the gateway's own, if the origin gives no answer
	for _, reason := range c.UseStale {
		code, isCode := strings.CutPrefix(string(reason), "HTTP")
		if isCode && code != "502" && code != "504" {
			codes = append(codes, code)
		}
	}
	return codes
}

// shared keeps a response for a second, for the requests that wait for it. Errors of the origin count too, so that a
// failing origin gets one request a second for an object.
func (r renderer) shared() conf.Block {
	lock := r.Spec.Cache.Lock
	set := func(name, value string) conf.Directive {
		return conf.D("proxy_set_header", conf.Literal(name), conf.Expression(value))
	}
	key := "$request_method $http_x_forwarded_proto $http_x_forwarded_host $http_host" +
		"$request_uri $http_if_none_match $http_if_modified_since"
	kept := conf.Literals("200", "203", "301", "302", "304", "404", "410", "500", "502", "503", "504")
	block := conf.Block{
		conf.D("proxy_cache", conf.Expression(refreshZone(diskInRequest))),
		// nginx leaves the conditions out where it caches, and what a location sets replaces what the server sets.
		set("If-None-Match", "$http_if_none_match"), set("If-Modified-Since", "$http_if_modified_since"),
		set("Host", "$http_host"), set("Connection", ""), set(stateHeader, ""), set(diskHeader, ""), set(sliceHeader, ""),
		set(fillHeader, ""), set(formerHeader, ""),
	}
	if r.hasSlices() {
		key = "$http_range " + key
		kept = append(conf.Literals("206"), kept...)
		block = append(block, set("Range", "$http_range"))
	}
	block = append(block,
		// The requests of the cache for an object differ in nothing else but what Vary names.
		conf.D("proxy_cache_key", conf.Expression(key)),
		conf.D("proxy_ignore_headers",
			append(accelHeaders("X-Accel-Buffering"), conf.Literal("Cache-Control"), conf.Literal("Expires"))...),
		conf.D("proxy_cache_valid", append(kept, conf.Literal("1s"))...),
		conf.D("proxy_no_cache",
			conf.Expression(ownOnly), conf.Expression(variesVariable), conf.Expression(partialVariable)),
		conf.D("proxy_cache_lock", conf.OnOff(ptr.Deref(lock.Enabled, true))),
		conf.D("proxy_cache_lock_timeout", conf.Time(tuning.Duration(lock.Timeout))),
		conf.D("proxy_cache_lock_age", conf.Time(tuning.Duration(lock.Age))),
		conf.D("add_header", conf.Literal(sharedHeader), conf.Expression("$upstream_cache_status"), conf.Literal("always")))
	return append(block, r.toCache()...)
}

// refreshZone is the gateway's cache for a disk.
func refreshZone(disk string) string { return "refresh_" + disk }

// accelHeaders returns the headers of a response that tell nginx what to do with it, without some of them.
func accelHeaders(without ...string) []conf.Argument {
	return slices.DeleteFunc(conf.Literals("X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Buffering", "X-Accel-Charset",
		"X-Accel-Limit-Rate"), func(a conf.Argument) bool {
		return slices.Contains(conf.Literals(without...), a)
	})
}

// passed has a location pass on headers of a response that nginx keeps to itself by default.
func passed(names []conf.Argument) (block conf.Block) {
	for _, name := range names {
		block = append(block, conf.D("proxy_pass_header", name))
	}
	return block
}
