package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// withBody is the gateway's location for GET and HEAD with a body, bodyInGateway the variable that is 1 for such
	// requests.
	withBody      = "@with_body"
	bodyInGateway = "$gateway_body"
	// noBody is the gateway's location that refuses a body of which a part is lost.
	noBody = "@no_body"
	// plainHeader tells the gateway that a server took a request for one without a body. askingPlain is its value.
	plainHeader    = "X-CacheNode-Plain"
	plainInRequest = "$http_x_cachenode_plain"
	askingPlain    = "$asking_plain"
)

// Over HTTP/2 and HTTP/3, a body needs no header that announces it. A server of clients therefore takes such a GET for
// one without a body, and for one that a cache may answer. The gateway gets HTTP/1.1, in which a body is announced. It
// passes the request on without conditions or anything that others may have asked for, and says that the response is
// not to be stored.
//
// After a lookup in memory or in another pod, a part of the body is lost, as bodies pass through. The gateway and the
// lookup server of the other pod then answer with 411.

// bodyMaps are the map for bodyInGateway, and those for what the cache, and not the client, has asked for. Lookups are
// answered without the origin.
func bodyMaps() conf.Block {
	unless := func(when conf.Expression, variable string) conf.Directive {
		return conf.B("map",
			[]conf.Argument{when, conf.Expression("$body_" + variable)},
			conf.Row(conf.Literal(""), conf.Expression("$http_"+variable)), conf.D("default", conf.Literal("")))
	}
	which := conf.B("map",
		[]conf.Argument{
			conf.Expression(stateInRequest + ":" + plainInRequest +
				":$request_method:$http_content_length:$http_transfer_encoding"),
			conf.Expression(bodyInGateway),
		},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~:1?:(?:GET|HEAD):0*:$"), conf.Literal("")),
		conf.Row(conf.Expression("~^(?:"+stateExpired+"|"+statePatient+")?::(?:GET|HEAD):"), conf.Literal("1")),
		conf.Row(conf.Expression("~^(?:"+stateExpired+"|"+statePatient+"|"+stateHead+")?:1?:(?:GET|HEAD):"),
			conf.Literal("lost")))
	return conf.Block{
		which, unless(stateInRequest, "if_none_match"), unless(stateInRequest, "if_modified_since"),
		unless(sliceInRequest, "range"),
	}
}

// toBody has the gateway's first location pass requests with a body on to their own.
func toBody() conf.Block {
	when := func(value, status string) conf.Directive {
		return conf.B("if",
			[]conf.Argument{conf.Expression("(" + bodyInGateway), conf.Literal("="), conf.Literal(value + ")")},
			conf.D("return", conf.Literal(status)))
	}
	return conf.Block{
		conf.D("error_page", conf.Literal("421"), conf.Literal("="), conf.Literal(withBody)),
		conf.D("error_page", conf.Literal("422"), conf.Literal("="), conf.Literal(noBody)),
		when("1", "421"), when("lost", "422"),
	}
}

// asksPlain is true if plainVariable is there: a server may then have looked a request up before the gateway gets it.
func (r renderer) asksPlain() bool { return len(r.disks) > 0 && (r.hasMemoryTier() || r.hops()) }

// plainMap is the map for askingPlain: only for requests to the gateway.
func (r renderer) plainMap() conf.Block {
	if !r.asksPlain() {
		return nil
	}
	return conf.Block{conf.B("map",
		[]conf.Argument{conf.Expression(gatewayDisk + ":" + plainVariable), conf.Expression(askingPlain)},
		conf.D("volatile"), // the lookup in memory has evaluated it already
		conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~.:1$"), conf.Literal("1")))}
}

// plainValue is the value of plainHeader.
func (r renderer) plainValue() conf.Argument {
	if !r.asksPlain() {
		return conf.Literal("")
	}
	return conf.Expression(askingPlain)
}

// lengthRequired is noBody in the server of clients. The other pod's answer may be one to HEAD, without a body.
func lengthRequired() conf.Directive {
	return conf.B("location", conf.Literals(noBody), conf.D("return", conf.Literal("411")))
}

// noBodies has the lookup server refuse a body.
func noBodies() conf.Block {
	return conf.Block{readToTheEnd(), conf.B("if",
		[]conf.Argument{conf.Expression("(" + bodyVariable + ")")}, conf.D("return", conf.Literal("411")))}
}

// readToTheEnd reads what still comes after an answer. The sender would otherwise take the end of the connection for a
// failure, and ask elsewhere.
func readToTheEnd() conf.Directive { return conf.D("lingering_close", conf.Literal("always")) }

// bodyLocations are withBody, where the origin's own X-Accel-Expires does not count, and noBody.
func (r renderer) bodyLocations() conf.Block {
	set := func(name, value string) conf.Directive {
		return conf.D("proxy_set_header", conf.Literal(name), conf.Expression(value))
	}
	block := conf.Block{
		set("Host", "$http_host"), set("Connection", ""),
		set("If-None-Match", "$body_if_none_match"), set("If-Modified-Since", "$body_if_modified_since"),
		set("Range", "$body_range"),
	}
	for _, name := range []string{stateHeader, diskHeader, sliceHeader, fillHeader, formerHeader, plainHeader} {
		block = append(block, set(name, ""))
	}
	// nginx takes these lists from the server only if a location has none.
	block = append(block, passed(append(accelHeaders("X-Accel-Expires"), conf.Literal("Server"), conf.Literal("Date")))...)
	block = append(block, r.gatewayHides()...)
	for _, d := range r.toCache() {
		if d.Name == "add_header" && slices.Contains(accelHeaders(), d.Args[0]) {
			continue // a redirect to another location would lose the body
		}
		block = append(block, d)
	}
	never := conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Literal("0"), conf.Literal("always"))
	return conf.Block{
		conf.B("location", conf.Literals(withBody),
			append(block, never, conf.D("proxy_pass", r.origin(upstreamName)))...),
		conf.B("location", conf.Literals(noBody), readToTheEnd(), never, conf.D("return", conf.Literal("411"))),
	}
}
