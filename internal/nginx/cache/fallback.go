package cache

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// fallbackHeader tells the gateway that a request went past its own disk. fallsBack is its value: "1" or "". It stays
	// what it is on all further ways of a request.
	fallbackHeader    = "X-CacheNode-Fallback"
	fallbackInRequest = "$http_x_cachenode_fallback"
	fallsBack         = "$falls_back"
	// fallbacksZone counts such requests, by fallbackKey: "1" for those that count, and else "".
	fallbacksZone = "fallbacks"
	fallbackKey   = "$fallback_key"
	// rejected is the gateway's location for requests beyond the bound, and sharedRejected its value of sharedHeader.
	rejected       = "@rejected"
	sharedRejected = "REJECTED"
	// gatewayOrOrigin is the URL for what no disk can serve, fallsBackHere is fallsBack for it.
	gatewayOrOrigin = "$gateway_or_origin"
	fallsBackHere   = "$falls_back_here"
	// rejectedVariable is sharedRejected for a request that the gateway has rejected, and else 0.
	rejectedVariable = "$rejected"
)

// The gateway bounds how many requests at once go past their own disk (origin.fallbackConcurrency). It counts those of
// all ports together. nginx evaluates limit_conn once for each request, so the servers in front of the gateway are free
// to bound something else by it, and in the gateway each location has it in which such a request may ask the origin, or
// wait for another that does. What the gateway then asks itself about an expired object goes to other locations, so
// each request counts once.
//
// An answer from a disk does not count. Neither does a later slice: the response to the client has begun, and a
// rejection would cut it.

// A worker that ends accepts no more connections, and then its own requests find no gateway. They reach the origin
// directly, uncounted and without the headers for the gateway.

// falls sets fallsBack: in the first location of a request, and in those past its disk.
func falls(value conf.Argument) conf.Directive {
	return set(fallsBack, value)
}

// fallbackMaps returns the maps that say which requests count, and the zones that count them.
func (m gatewayMaps) fallbackMaps() conf.Block {
	key := conf.Map(fallbackInRequest+":"+sliceInRequest, fallbackKey,
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^1:(?!next$)"), conf.Literal("1")))
	without := func(variable conf.Expression, normal, direct conf.Argument) conf.Directive {
		return conf.Map("$upstream_addr|$upstream_connect_time", variable,
			conf.D("volatile"), conf.D("default", normal),
			conf.Row(conf.Expression("~unix:[^ |]*[|](?:.* )?-$"), direct)) // the last connection could not be made
	}
	return conf.Block{
		without(gatewayOrOrigin, m.entry.url(), m.backend.url()),
		without(fallsBackHere, conf.Literal("1"), conf.Literal("")),
		key,
		conf.D("limit_conn_zone", conf.Expression(fallbackKey), conf.Literal("zone="+fallbacksZone+":1m")),
	}
}

// fallbackLimit bounds the requests in a location of the gateway that went past their own disk.
func (g gateway) fallbackLimit() conf.Directive {
	return conf.D("limit_conn", conf.Literal(fallbacksZone), conf.Int(ptr.Deref(g.Origin.FallbackConcurrency, 1)))
}

// orRejected bounds them in a location for what the cache does not have.
func (g gateway) orRejected() conf.Block {
	return conf.Block{
		g.fallbackLimit(),
		conf.D("error_page", conf.Literal("503"), conf.Literal("="), conf.Literal(rejected)),
	}
}

// orStale bounds them in a location for an expired object. A rejection counts as an origin that does not answer, see
// renewal.go: the client gets a stale copy if the stored response allows that. Otherwise the request comes back, in the
// end to orRejected.
func (g gateway) orStale() conf.Block {
	return conf.Block{g.fallbackLimit(), conf.D("limit_conn_status", conf.Literal("502"))}
}

// rejectedLocation returns the location rejected. No cache stores its answer. With slices, a cache may have the whole
// object, and looks for it.
func (g gateway) rejectedLocation() conf.Directive {
	return location(rejected, append(g.redirect(),
		addHeader("Retry-After", conf.Literal("1")), addHeader("X-Accel-Expires", conf.Literal("0")),
		addHeader(sharedHeader, conf.Literal(sharedRejected)),
		conf.D("return", conf.Literal("503")))...)
}

// rejectedMap returns the map for rejectedVariable. What an origin or a pod has in the header is not logged as it is.
func rejectedMap() conf.Directive {
	return conf.Map("$upstream_http_x_cachenode_shared", rejectedVariable,
		conf.D("default", conf.Literal("0")), conf.Row(conf.Literal(sharedRejected), conf.Literal(sharedRejected)))
}

// logsRejection returns the log of rejections for the agent. It is for locations whose own log does not say that a
// request went past its disk.
func logsRejection() conf.Directive {
	return conf.D("access_log", toAgent(agentapi.TagUncached), conf.Literal("agent"),
		conf.Expression("if="+rejectedVariable))
}
