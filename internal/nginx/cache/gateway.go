package cache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// gatewayUpstream leads to the gateway.
	gatewayUpstream = "gateway"
	// stateHeader tells the gateway that the cache has an expired copy, or that the client asked by HEAD for what the
	// cache does not have (stateHead). headAlone is the gateway's location for that.
	stateHeader    = "X-CacheNode-State"
	stateVariable  = "$asking_state"
	stateInRequest = "$http_x_cachenode_state"
	stateHead      = "HEAD"
	headAlone      = "@head_alone"
	// diskHeader names the disk whose cache asks. gatewayDisk is its value.
	diskHeader    = "X-CacheNode-Disk"
	diskInRequest = "$http_x_cachenode_disk"
	gatewayDisk   = "$asking_disk"
	// sharedHeader says how the gateway got a response: HIT if another request has fetched it, sharedRejected if it is the
	// gateway's own.
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
	strict         = "~*(?:must-revalidate|proxy-revalidate|s-maxage)"

	// member and dictionary match a structured field (RFC 8941), which CDN-Cache-Control must be to count.
	member     = `[a-z*][a-z0-9_.*-]*(?:=(?:[0-9.-]+|"[^"]*"|[a-z*][^ ,;"]*|[?][01]|:[^:]*:))?(?:;[^,]*)?`
	dictionary = `^\s*` + member + `(?:\s*,\s*` + member + `)*\s*$`

	// byStateVariable is the gateway's location for a request with a stateHeader; "" without one.
	byStateVariable = "$by_state"
)

// gateway is the private server between the caches of the disks and the origin.
//
// nginx serves a stale copy only as long as the stored response itself allows it by stale-while-revalidate and
// stale-if-error (RFC 5861). The gateway adds these to the Cache-Control of responses that have none and do not forbid
// stale copies (RFC 9111, section 4.2.4). It keeps the origin's own Cache-Control for clients. For a CDN,
// CDN-Cache-Control goes before Cache-Control (RFC 9213).
//
// Requests for expired objects are in renewal.go.
func (r renderer) gateway() conf.Block {
	format, _ := r.sliceLog()
	lifetime, _ := r.lifetime()
	return append(slices.Concat(
		r.controlMaps(), r.hitForMissMaps(), r.mixedMaps(), bodyMaps(), r.againMaps(), r.backgroundMaps(), r.redirects(),
		r.fallbackMaps(), format, lifetime),
		slowMap(), onceMap(),
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
		[]conf.Argument{
			conf.Expression("$upstream_http_x_accel_expires|$upstream_http_expires|") + control, conf.Expression(ownOnly),
		},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^(?:0|[^1-9@|])"), conf.Literal("1")),
		conf.Row(conf.Expression("~*(?:no-store|no-cache|private)"), conf.Literal("1")),
		conf.Row(conf.Expression("~*max-?age=(?![1-9])"), conf.Literal("1")),
		// A map cannot tell whether a date has passed.
		conf.Row(conf.Expression("~*^[|][^|]+[|](?!.*max-?age=)"), conf.Literal("1")))
	origins := conf.Expression(originVariable)
	return conf.Block{
		shared, forOne, aged,
		r.states(), r.byState(),
		conf.B("map", []conf.Argument{conf.Expression("$request_time"), conf.Expression(waitedVariable)},
			conf.D("volatile"), conf.D("default", conf.Literal(stateTry)),
			conf.Row(conf.Expression("~^0[.][0-8]"), conf.Literal(stateFetch))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_http_cdn_cache_control"), control},
			conf.D("default", conf.Expression(controlInAnswer)),
			conf.Row(conf.Expression("~*"+dictionary), conf.Expression("$upstream_http_cdn_cache_control"))),
		conf.B("map", []conf.Argument{control, conf.Expression(storedVariable)},
			conf.Row(conf.Literal(""), conf.Literal(both)),
			conf.Row(conf.Expression(strict), control),
			conf.Row(conf.Expression("~*(?:no-store|no-cache|private)"), control),
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

// states is the map for stateVariable.
func (r renderer) states() conf.Directive {
	how := conf.Expression(gatewayDisk + ":$upstream_cache_status:$request_method:" + fromVariable)
	states := conf.B("map", []conf.Argument{how, conf.Expression(stateVariable)},
		conf.D("volatile"), // the lookup in memory has evaluated it already
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~.:EXPIRED:(?:GET|HEAD):(?!"+fromWaiting+")"), conf.Literal(stateExpired)),
		conf.Row(conf.Expression("~.:EXPIRED:(?:GET|HEAD):"), conf.Literal(statePatient)),
		conf.Row(conf.Expression("~.:MISS:HEAD:"), conf.Literal(stateHead)))
	if r.hasSlices() {
		states.Args[0] = how + ":" + positionVariable
	}
	states.Block = append(states.Block, r.missStates()...)
	return states
}

// byState is the map for byStateVariable.
func (r renderer) byState() conf.Directive {
	by := conf.B("map", []conf.Argument{conf.Expression(stateInRequest), conf.Expression(byStateVariable)},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Literal(stateHead), conf.Literal(headAlone)),
		conf.Row(conf.Literal(stateExpired), conf.Literal(expired)),
		conf.Row(conf.Literal(statePatient), conf.Literal(patient)),
		conf.Row(conf.Literal(stateRenewal), conf.Literal(renewal)),
		conf.Row(conf.Literal(stateFetch), conf.Literal(fetch)),
		conf.Row(conf.Literal(stateTry), conf.Literal(try)))
	by.Block = append(by.Block, r.missPlaces()...)
	if r.renewsInBackground() {
		by.Block = append(by.Block, conf.Row(conf.Literal(stateBackground), conf.Literal(background)),
			conf.Row(conf.Literal(stateRenewer), conf.Literal(renewer)))
	}
	return by
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
	if s := int64(effective.Duration(c.StaleWhileRevalidate).Seconds()); s > 0 {
		whileRevalidate = fmt.Sprintf("stale-while-revalidate=%d", s)
	}
	if s := int64(effective.Duration(c.StaleIfError).Seconds()); s > 0 {
		ifError = fmt.Sprintf("stale-if-error=%d", s)
	}
	return whileRevalidate, ifError
}

// gatewayServer passes requests on as they come. The caches in front of it decide what X-Accel headers mean.
func (r renderer) gatewayServer() conf.Directive {
	block := slices.Concat(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.GatewaySocket)),
		refusesMalformed(),
		conf.D("large_client_header_buffers", conf.Literal("4"), conf.Literal(ownHeaders)),
		conf.D("keepalive_requests", conf.Literal("100000")),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$http_host")),
		conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
	}, withoutOwn(), conf.Block{
		// Few reads and writes for a large body.
		conf.D("proxy_buffer_size", conf.Literal("16k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("64k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("128k")),
	}, r.reachOrigin())
	block = append(block, r.notSliced("")...) // maps that caches use, too, read the variable
	block = append(block, conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Buffering")...))
	block = append(block, passed(r.gatewayPasses("X-Accel-Expires"))...) // see lifetime
	block = append(block, r.gatewayHides()...)
	_, log := r.sliceLog()
	block = slices.Concat(block, r.toCache(), log)
	byState := conf.Block{
		conf.D("error_page", conf.Literal("418"), conf.Literal("="), conf.Expression(byStateVariable)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		conf.B("if", []conf.Argument{conf.Expression("(" + byStateVariable + ")")},
			conf.D("return", conf.Literal("418"))),
	}
	block = slices.Concat(block, r.fillLocations(), r.renewalLocations(), r.backgroundLocations(),
		conf.Block{r.bodyLocation(), r.onceLocation(), r.rejectedLocation()}, r.againLocations(), r.sentBack())
	return conf.B("server", nil, append(block,
		// nginx would fetch the whole object and store it. The cache passes the request on instead.
		conf.B("location", conf.Literals(headAlone),
			conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Literal(pass)),
			conf.D("return", conf.Literal("204"))),
		conf.B("location", conf.Literals("/"),
			append(slices.Concat(toBody(), toOnce(), byState, r.toFill(), r.orRejected(), r.orAgain(againVariable), r.notes()),
				conf.D("proxy_pass", r.origin(upstreamName)))...))...)
}

// withoutOwn has a location of the gateway leave out of its requests what the caches have sent to the gateway.
func withoutOwn() (block conf.Block) {
	for _, name := range []string{stateHeader, diskHeader, sliceHeader, fillHeader, formerHeader, fallbackHeader} {
		block = append(block, conf.D("proxy_set_header", conf.Literal(name), conf.Literal("")))
	}
	return block
}

// gatewayHides are the origin's headers of the names that toCache adds, and of ours.
func (r renderer) gatewayHides() conf.Block {
	names := append(ownNames(), "Cache-Control", originHeader, sharedHeader)
	if r.hasSlices() {
		for _, h := range copiedHeaders {
			names = append(names, h.name)
		}
	}
	return hides(names...)
}

// gatewayPasses returns the headers of a response that the gateway passes on and nginx would keep to itself.
func (r renderer) gatewayPasses(without ...string) []conf.Argument {
	without = append(without, "X-Accel-Redirect") // see redirects
	return append(accelHeaders(without...), conf.Literal("Server"))
}

// toCache are the headers that the gateway adds to a response.
func (r renderer) toCache() conf.Block {
	_, lifetime := r.lifetime()
	return slices.Concat(conf.Block{
		conf.D("add_header", conf.Literal("Cache-Control"), conf.Expression(sentControl), conf.Literal("always")),
		conf.D("add_header", conf.Literal(originHeader), conf.Expression(originVariable), conf.Literal("always")),
	}, lifetime, r.redirect())
}

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
