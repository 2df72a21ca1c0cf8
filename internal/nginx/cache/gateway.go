package cache

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// stateHeader tells the gateway why a cache asks, for example because its copy has expired. stateHead means that the
	// client sent a HEAD for an object that the cache does not have. headAlone is the gateway's location for such a
	// HEAD.
	stateHeader    = "X-CacheNode-State"
	stateVariable  = "$asking_state"
	stateInRequest = "$http_x_cachenode_state"
	stateHead      = "HEAD"
	headAlone      = "@head_alone"
	// diskHeader names the disk whose cache asks. gatewayDisk is the variable that contains the value of the header.
	diskHeader    = "X-CacheNode-Disk"
	diskInRequest = "$http_x_cachenode_disk"
	gatewayDisk   = "$asking_disk"
	// sharedHeader shows how the gateway got a response. HIT means that another request has fetched the response.
	// sharedRejected means that the gateway itself has rejected the request.
	sharedHeader   = "X-CacheNode-Shared"
	sharedVariable = "$is_shared"
	// agedVariable is not empty for a response that another cache has kept for a time, if nginx cannot subtract that
	// time.
	agedVariable = "$is_aged"
	// ownOnly is not empty for a response that answers only the request that fetched it, and no other request.
	ownOnly = "$own_only"
	// byStateVariable contains the gateway's location for a request with a stateHeader; "" for a request without one.
	byStateVariable = "$by_state"
)

// gateway is the part of the configuration with the gateway's server and locations.
type gateway struct{ site }

// gatewayMaps is the part of the configuration with the gateway's maps.
type gatewayMaps struct{ site }

// gateway returns the private server between the caches of the disks and the origin.
//
// nginx serves a stale copy only as long as the stored response itself allows that by stale-while-revalidate and
// stale-if-error (RFC 5861). The gateway adds these directives to the Cache-Control of responses that have none and
// do not forbid stale copies (RFC 9111, section 4.2.4). Clients get the origin's own Cache-Control. If a response has
// CDN-Cache-Control, that header takes precedence over Cache-Control (RFC 9213).
//
// The locations for expired objects are in renewal.go.
func (g gateway) gateway() conf.Block {
	m := gatewayMaps(g)
	return append(slices.Concat(
		m.answerMaps(), m.controlMaps(), m.hitForMissMaps(), m.mixedMaps(), bodyMaps(), m.againMaps(), m.backgroundMaps(),
		m.redirects(),
		m.fallbackMaps(), m.sliceFormat(), m.lifetimes(), m.cookieMaps()),
		slowMap(), onceMap(),
		conf.B("upstream", conf.Literals(g.entry.name),
			conf.D("server", g.entry.address()),
			conf.D("keepalive", conf.Int(ptr.Deref(g.Origin.Keepalive.Connections, 0))),
			conf.D("keepalive_requests", conf.Literal("100000"))),
		g.gatewayServer())
}

// answerMaps returns the maps that evaluate requests to the gateway and their responses.
func (m gatewayMaps) answerMaps() conf.Block {
	shared := conf.Map("$upstream_http_x_cachenode_shared", sharedVariable,
		conf.D("volatile"), // evaluated again for each slice
		conf.D("default", conf.Literal("")), conf.Row(conf.Literal("HIT"), conf.Literal("1")))
	aged := conf.Map("$upstream_http_cdn_cache_control:$upstream_http_age", agedVariable,
		conf.D("volatile"),
		conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~.:0*[1-9]"), conf.Literal("1")))
	forOne := conf.Map(conf.Expression(lifetimeVariable+"|$upstream_http_expires|"+controlVariable), ownOnly,
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^(?:0|[^1-9@|])"), conf.Literal("1")),
		conf.Row(conf.Expression("~*(?:no-store|no-cache|private)"), conf.Literal("1")),
		conf.Row(conf.Expression("~*^[|].*max-?age=(?![1-9])"), conf.Literal("1")),
		// A map cannot tell whether a date has passed.
		conf.Row(conf.Expression("~*^[|][^|]+[|](?!.*max-?age=)"), conf.Literal("1")))
	return conf.Block{
		shared, forOne, aged,
		m.states(), m.byState(),
		conf.Map("$request_time", waitedVariable,
			conf.D("volatile"), conf.D("default", conf.Literal(stateTry)),
			conf.Row(conf.Expression("~^0[.][0-8]"), conf.Literal(stateFetch))),
	}
}

// states returns the map for stateVariable.
func (m gatewayMaps) states() conf.Directive {
	how := conf.Expression(gatewayDisk + ":$upstream_cache_status:$request_method:" + fromVariable)
	if m.hasSlices() {
		how += ":" + positionVariable
	}
	return conf.Map(how, stateVariable, slices.Concat(conf.Block{
		conf.D("volatile"), // the lookup in memory has evaluated it already
		conf.D("default", conf.Literal("")),
	}, m.headStates(), conf.Block{
		conf.Row(conf.Expression("~.:EXPIRED:(?:GET|HEAD):(?!"+fromWaiting+")"), conf.Literal(stateExpired)),
		conf.Row(conf.Expression("~.:EXPIRED:(?:GET|HEAD):"), conf.Literal(statePatient)),
		conf.Row(conf.Expression("~.:MISS:HEAD:"), conf.Literal(stateHead)),
	}, m.missStates())...)
}

// byState returns the map for byStateVariable.
func (m gatewayMaps) byState() conf.Directive {
	rows := append(conf.Block{
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Literal(stateHead), conf.Literal(headAlone)),
		conf.Row(conf.Literal(stateExpired), conf.Literal(expired)),
		conf.Row(conf.Literal(statePatient), conf.Literal(patient)),
		conf.Row(conf.Literal(stateRenewal), conf.Literal(renewal)),
		conf.Row(conf.Literal(stateFetch), conf.Literal(fetch)),
		conf.Row(conf.Literal(stateTry), conf.Literal(try)),
	}, append(m.headPlaces(), m.missPlaces()...)...)
	if m.renewsInBackground() {
		rows = append(rows, conf.Row(conf.Literal(stateBackground), conf.Literal(background)),
			conf.Row(conf.Literal(stateRenewer), conf.Literal(renewer)))
	}
	return conf.Map(stateInRequest, byStateVariable, rows...)
}

// gatewayServer returns the server that passes requests on as they come. The caches in front of it evaluate the
// X-Accel headers.
func (g gateway) gatewayServer() conf.Directive {
	block := slices.Concat(conf.Block{
		conf.D("listen", g.entry.address()),
		refusesMalformed(),
	}, g.unknownRoute("502"), conf.Block{
		conf.D("large_client_header_buffers", conf.Literal("4"), conf.Literal(ownHeaders)),
		conf.D("keepalive_requests", conf.Literal("100000")),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		setHeader("Host", conf.Expression("$http_host")),
		setHeader("Connection", conf.Literal("")),
	}, withoutOwn(), g.toldRoute(), largeBuffers(), g.backend.reachOrigin())
	block = append(block, g.notSliced("")...) // caches also use the maps that read this variable
	block = append(block, conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Buffering")...))
	block = append(block, passed(g.gatewayPasses("X-Accel-Expires"))...) // see lifetime
	block = append(block, g.gatewayHides()...)
	block = slices.Concat(block, g.toCache(), g.logsSlices())
	byState := conf.Block{
		conf.D("error_page", conf.Literal("418"), conf.Literal("="), conf.Expression(byStateVariable)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		ifSet(byStateVariable,
			conf.D("return", conf.Literal("418"))),
	}
	block = slices.Concat(block, fills{g}.locations(), refreshes{g}.locations(), backgrounds{g}.locations(),
		conf.Block{g.bodyLocation(), g.onceLocation(), g.rejectedLocation()}, repeats{g}.locations(), g.sentBack())
	if g.hasSlices() {
		block = append(block, redirectsTo(headInWhole, passInWhole))
	}
	return conf.B("server", nil, append(block,
		// For a HEAD, nginx would fetch the whole object and store it. So the cache passes the request on instead.
		redirectsTo(headAlone, pass),
		location("/",
			append(slices.Concat(toBody(), toOnce(), byState, fills{g}.toFill(), g.orRejected(), g.orAgain(againVariable),
				g.notes()),
				conf.D("proxy_pass", g.backend.url()))...))...)
}

// redirectsTo returns a location of the gateway that sends a request back to a location of the cache.
func redirectsTo(name, to string) conf.Directive {
	return location(name,
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Literal(to)), conf.D("return", conf.Literal("204")))
}

// largeBuffers returns the buffers of a private server that passes bodies on. With them, a large body needs few reads
// and writes.
func largeBuffers() conf.Block {
	return conf.Block{
		conf.D("proxy_buffer_size", conf.Literal("16k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("64k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("128k")),
	}
}

// withoutOwn makes a location of the gateway remove from its requests the headers that caches send to the gateway.
func withoutOwn() (block conf.Block) {
	for _, name := range []string{stateHeader, diskHeader, sliceHeader, fillHeader, formerHeader, fallbackHeader} {
		block = append(block, setHeader(name, conf.Literal("")))
	}
	return block
}

// gatewayHides hides those headers of the origin whose names are used by toCache or are CacheNode's own.
func (g gateway) gatewayHides() conf.Block {
	names := append(ownNames(), "Cache-Control", originHeader, sharedHeader)
	if g.hasSlices() {
		for _, h := range copiedHeaders {
			names = append(names, h.name)
		}
	}
	return hides(names...)
}

// gatewayPasses returns the response headers that the gateway passes on although nginx keeps them to itself by
// default.
func (g gateway) gatewayPasses(without ...string) []conf.Argument {
	without = append(without, "X-Accel-Redirect") // see redirects
	return append(accelHeaders(without...), conf.Literal("Server"))
}

// toCache returns the headers that the gateway adds to a response.
func (g gateway) toCache() conf.Block {
	lifetime := addHeader("X-Accel-Expires", conf.Expression(lifetimeVariable))
	// nginx evaluates the headers in their order. After a lifetime, it ignores all of Cache-Control but the directives for
	// stale copies.
	return slices.Concat(conf.Block{lifetime}, control(), g.redirect())
}

// control returns the headers that tell the cache the Cache-Control of a response.
func control() conf.Block {
	return conf.Block{
		addHeader("Cache-Control", conf.Expression(sentControl)),
		addHeader(originHeader, conf.Expression(originVariable)),
	}
}

// accelHeaders returns the names of the response headers that tell nginx what to do with the response, except those
// in without.
func accelHeaders(without ...string) []conf.Argument {
	return slices.DeleteFunc(conf.Literals("X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Buffering", "X-Accel-Charset",
		"X-Accel-Limit-Rate"), func(a conf.Argument) bool {
		return slices.Contains(conf.Literals(without...), a)
	})
}

// passed makes a location pass response headers on that nginx keeps to itself by default.
func passed(names []conf.Argument) (block conf.Block) {
	for _, name := range names {
		block = append(block, conf.D("proxy_pass_header", name))
	}
	return block
}
