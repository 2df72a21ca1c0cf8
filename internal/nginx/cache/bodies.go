package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// withBody is the gateway's location for GET and HEAD requests with a body. bodyInGateway is the variable that is 1
	// for such requests.
	withBody      = "@with_body"
	bodyInGateway = "$gateway_body"
	// largestSurprise is the maximum size of a body that no header announces. nginx keeps such a body in memory until it
	// is complete.
	largestSurprise = "64k"
)

// Over HTTP/2 and HTTP/3, a request can have a body that no header announces. The end of a request without a body may
// come in a packet after its header. So a server for clients cannot tell at once whether a GET over these protocols
// has a body. It treats the GET as a request that a cache may answer. It waits for the end of the request before it
// asks the gateway or another pod, and refuses a body of more than largestSurprise with 413. After that, the server
// knows the length of the body and sends the length on. A lookup in another pod is sent without the body.
//
// The gateway passes a GET with a body on without the conditions and ranges that the cache has added. It marks the
// response as not to be stored.

// awaitsBody makes a location wait for the end of a request before it passes the request on.
func (s site) awaitsBody() conf.Block {
	if slices.Contains(s.Cache.Methods, "POST") {
		return nil // the bodies of a POST pass through, and may be large
	}
	return conf.Block{
		conf.D("proxy_request_buffering", conf.OnOff(true)),
		conf.D("client_max_body_size", conf.Literal(largestSurprise)),
		conf.D("client_body_buffer_size", conf.Literal(largestSurprise)),
	}
}

// bodyMaps returns the map for bodyInGateway, and the maps for conditions and ranges that the client and not the
// cache has sent. For lookups, bodyInGateway is "", because the gateway answers them without the origin.
func bodyMaps() conf.Block {
	whose := func(variable, when conf.Expression, clients conf.Argument) conf.Directive {
		return conf.Map(when, "$body_"+variable,
			conf.Row(clients, "$http_"+variable), conf.D("default", conf.Literal("")))
	}
	withoutCopy := conf.Expression("~^(?:" + misses + ")?$")
	which := conf.Map(stateInRequest+":$request_method:$http_content_length:$http_transfer_encoding", bodyInGateway,
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~:(?:GET|HEAD):0*:$"), conf.Literal("")),
		conf.Row(conf.Expression("~^(?:"+stateExpired+"|"+statePatient+"|"+misses+")?:(?:GET|HEAD):"), conf.Literal("1")))
	return conf.Block{
		which,
		whose("if_none_match", stateInRequest, withoutCopy), whose("if_modified_since", stateInRequest, withoutCopy),
		whose("range", sliceInRequest, conf.Literal("")),
	}
}

// toBody makes the gateway's first location pass requests with a body on to the location withBody.
func toBody() conf.Block {
	return conf.Block{
		conf.D("error_page", conf.Literal("421"), conf.Literal("="), conf.Literal(withBody)),
		ifSet(bodyInGateway, conf.D("return", conf.Literal("421"))),
	}
}

// bodyLocation returns the location withBody. In this location, the origin's own X-Accel-Expires has no effect.
func (g gateway) bodyLocation() conf.Directive {
	block := conf.Block{
		setHeader("Host", conf.Expression("$http_host")), setHeader("Connection", conf.Expression("")),
		setHeader("If-None-Match", conf.Expression("$body_if_none_match")),
		setHeader("If-Modified-Since", conf.Expression("$body_if_modified_since")),
		setHeader("Range", conf.Expression("$body_range")),
	}
	block = slices.Concat(block, withoutOwn(), g.toldRoute())
	// nginx uses the lists of the server only in a location that has no list of its own.
	block = append(block, passed(append(accelHeaders("X-Accel-Expires"), conf.Literal("Server"), conf.Literal("Date")))...)
	block = append(block, g.gatewayHides()...)
	// The origin's redirect is left out, because another location would not have the body.
	block = slices.Concat(block, control(), g.copied())
	block = append(block, addHeader("X-Accel-Redirect", conf.Expression(refusedVariable)))
	never := addHeader("X-Accel-Expires", conf.Literal("0"))
	block = append(block, g.orRejected()...)
	return location(withBody,
		append(block, never, conf.D("proxy_pass", g.backend.url()))...)
}
