package cache

import (
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// fallbackHeader tells the gateway that a request falls back, which means that its own disk could not serve it.
	// fallsBack is the value of the header: "1" or "". The value stays the same in all further steps of the request.
	fallbackHeader    = "X-CacheNode-Fallback"
	fallbackInRequest = "$http_x_cachenode_fallback"
	fallsBack         = "$falls_back"
	// fallbacksZone counts the requests that fall back. fallbackKey is "1" for a request that counts, and "" for any
	// other.
	fallbacksZone = "fallbacks"
	fallbackKey   = "$fallback_key"
	// rejected is the gateway's location for requests beyond the limit. sharedRejected is the value of sharedHeader in
	// its responses.
	rejected       = "@rejected"
	sharedRejected = "REJECTED"
	// gatewayOrOrigin is the URL for requests that no disk can serve. fallsBackHere is the value of fallsBack for such
	// requests.
	gatewayOrOrigin = "$gateway_or_origin"
	fallsBackHere   = "$falls_back_here"
	// rejectedVariable is sharedRejected for a request that the gateway has rejected, and 0 otherwise.
	rejectedVariable = "$rejected"
)

// The gateway limits the number of requests that fall back at the same time (origin.fallbackConcurrency). It counts
// the requests of all ports together. nginx evaluates limit_conn only once for each request, so the servers in front
// of the gateway can use limit_conn for other limits. In the gateway, limit_conn is in each location in which such a
// request may ask the origin, or may wait for another request that asks it. The requests that the gateway then sends
// to itself for an expired object go to other locations. So each request counts once.
//
// A response from a disk does not count. A later slice does not count either: the response to the client has begun,
// and a rejection would cut it.

// A worker that shuts down accepts no more connections, so its own requests cannot reach the gateway. These requests
// go directly to the origin. They are not counted, and do not have the headers for the gateway.

// falls sets fallsBack. It is used in the first location of a request, and in the locations that a request reaches
// after its own disk could not serve it.
func falls(value conf.Argument) conf.Directive {
	return set(fallsBack, value)
}

// fallbackMaps returns the maps that decide which requests count, and the zones that count them.
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

// fallbackLimit limits the requests in a location of the gateway that fall back.
func (g gateway) fallbackLimit() conf.Directive {
	return conf.D("limit_conn", conf.Literal(fallbacksZone), conf.Int(ptr.Deref(g.Origin.FallbackConcurrency, 1)))
}

// orRejected limits the requests that fall back, in a location for objects that the cache does not have.
func (g gateway) orRejected() conf.Block {
	return conf.Block{
		g.fallbackLimit(),
		conf.D("error_page", conf.Literal("503"), conf.Literal("="), conf.Literal(rejected)),
	}
}

// orStale limits the requests that fall back, in a location for expired objects. A rejection has the same effect as
// an origin that does not answer; see renewal.go. The client gets a stale copy if the stored response allows that.
// Otherwise the request comes back, and finally reaches a location with orRejected.
func (g gateway) orStale() conf.Block {
	return conf.Block{g.fallbackLimit(), conf.D("limit_conn_status", conf.Literal("502"))}
}

// rejectedLocation returns the location rejected. No cache stores its answer. With slices, the cache then looks for a
// stored copy of the whole object.
func (g gateway) rejectedLocation() conf.Directive {
	return location(rejected, append(g.redirect(),
		addHeader("Retry-After", conf.Literal("1")), addHeader("X-Accel-Expires", conf.Literal("0")),
		addHeader(sharedHeader, conf.Literal(sharedRejected)),
		conf.D("return", conf.Literal("503")))...)
}

// rejectedMap returns the map for rejectedVariable. Any other value of the header, from an origin or a pod, is not
// logged.
func rejectedMap() conf.Directive {
	return conf.Map("$upstream_http_x_cachenode_shared", rejectedVariable,
		conf.D("default", conf.Literal("0")), conf.Row(conf.Literal(sharedRejected), conf.Literal(sharedRejected)))
}

// logsRejection returns the log that reports rejections to the agent. It is for locations whose own log does not show
// that a request falls back.
func logsRejection() conf.Directive {
	return conf.D("access_log", toAgent(agentapi.TagUncached), conf.Literal("agent"),
		conf.Expression("if="+rejectedVariable))
}
