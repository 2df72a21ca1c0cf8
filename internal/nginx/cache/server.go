package cache

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// otherDisk is the location for requests whose own disk fails. They fail over to the next disk, with its cache and its
	// lock, so that the origin gets one request for an object and not one from each client.
	otherDisk = "@other_disk"
	// uncached is the location for requests that no disk can serve.
	uncached = "@uncached"
	// rangeOnDisk, rangeInMemory and rangeOverHop are the locations for a range that the stored object does not have.
	rangeOnDisk   = "@no_such_range"
	rangeInMemory = "@no_such_range_in_memory"
	rangeOverHop  = "@no_such_range_over_hop"
	// clientsZone counts the connections of each client.
	clientsZone = "clients"
)

// publicServers are the servers that clients reach. If the spec lists hosts, a request for any other host gets 421.
func (r renderer) publicServers() conf.Block {
	block := append(r.requestMaps(), r.sliceMaps()...)
	if r.limitsClients() {
		block = append(block, conf.D("limit_conn_zone",
			conf.Expression("$binary_remote_addr"), conf.Literal("zone="+clientsZone+":10m")))
	}
	block = slices.Concat(block, r.plain(), r.fleetMaps(), r.fillMaps(), r.generations(), r.listenerTLS(), r.doorMaps(),
		r.atOnceMaps())
	listen := r.listeners()
	if len(r.Spec.Hosts) == 0 {
		return append(block, r.server(append(listen, conf.D("server_name", conf.Literal("_")))))
	}
	var names []conf.Argument
	for _, h := range r.Spec.Hosts {
		names = append(names, conf.Literal(h))
	}
	return append(block,
		conf.B("server", nil, append(slices.Concat(listen, r.protocols(), r.clientTimeouts()), // awaits the header
			conf.D("server_name", conf.Literal("_")),
			conf.D("return", conf.Literal("421")))...),
		r.server(append(named(listen), conf.D("server_name", names...))))
}

// clientTimeouts bound the time that a client may take for a request. A connection with an incomplete request occupies
// a slot that another client could use.
func (r renderer) clientTimeouts() conf.Block {
	const header, body = "10s", "30s"
	return conf.Block{
		conf.D("client_header_timeout", conf.Time(effective.Duration(cmp.Or(r.Spec.Listen.HeaderTimeout, header)))),
		conf.D("client_body_timeout", conf.Time(effective.Duration(cmp.Or(r.Spec.Listen.BodyTimeout, body)))),
	}
}

// limitsClients is true if each client may have so many connections.
func (r renderer) limitsClients() bool { return r.Spec.Listen.MaxConnectionsPerClient != nil }

// clientLimit bounds the connections of each client.
func (r renderer) clientLimit() conf.Block {
	if !r.limitsClients() {
		return nil
	}
	return conf.Block{
		conf.D("limit_conn", conf.Literal(clientsZone), conf.Int(*r.Spec.Listen.MaxConnectionsPerClient)),
		conf.D("limit_conn_status", conf.Literal("429")),
	}
}

// server is the cache itself.
//
// error_page catches what fails before the response's header is sent. An I/O error of the disk and a full queue of its
// thread pool both end as 500. The request then goes to another disk and, if that fails too, to the origin. The
// origin's own errors pass through, as proxy_intercept_errors is off.
func (r renderer) server(listen conf.Block) conf.Directive {
	// A date later than Last-Modified means the same as an equal one (RFC 9110, section 13.1.3).
	block := append(slices.Concat(listen, r.protocols(), r.clientTimeouts()),
		conf.D("if_modified_since", conf.Literal("before")), refusesMalformed())
	block = slices.Concat(block, r.clientAddress(), r.gzip(), r.clientLimit(), r.normalized(), r.toOrigin())
	block = append(block, r.hidden(originHeader, sharedHeader)...)
	block = append(block, r.scheme("$scheme")...)
	block = append(block, r.atOnce()...)
	var popular conf.Block
	if r.hasMemoryTier() {
		block = append(block, r.lookup(), r.renewed(), r.toPromoter(), r.toRenewal(),
			r.unsatisfiable(rangeInMemory, agentapi.TagMemory))
		popular = mirrored()
	} else {
		block = append(block, dispatch(r.place(), falls(conf.Literal(""))))
	}
	block = append(block, r.hopLocations()...)
	return conf.B("server", nil, append(block, r.hereLocations(popular)...)...)
}

// uncached is a location that passes requests to the origin that no disk can serve. The gateway bounds how many.
func (r renderer) uncached(name string, more ...conf.Directive) conf.Directive {
	block := append(r.throughGateway(r.passedURI()), falls(conf.Expression(fallsBackHere)))
	block[0] = conf.D("proxy_pass", conf.Expression(gatewayOrOrigin)+r.passedURI())
	block = append(block, r.asksNothing()...)
	block = append(block, r.logs(agentapi.TagUncached)...)
	block = append(block, r.headers(conf.Literal("UNCACHED"), conf.Expression(diskVariable))...)
	if r.door == toPeers && r.asksAgain() { // the gateway closes the connection, see unready
		block = append(block, conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Literal(broken)),
			conf.D("recursive_error_pages", conf.OnOff(true)))
	}
	return conf.B("location", conf.Literals(name), append(block, more...)...)
}

// origin is the URL of an upstream with the origin's servers.
func (r renderer) origin(upstream string) conf.Expression {
	return conf.Expression(r.Spec.Origin.Scheme + "://" + upstream)
}

// throughGateway passes a request on to the gateway, with a URI or as the client wrote it, and gives the client the
// origin's own Cache-Control.
func (r renderer) throughGateway(uri conf.Expression) conf.Block {
	block := conf.Block{
		conf.D("proxy_pass", "http://"+gatewayUpstream+uri),
		conf.D("proxy_next_upstream", conf.Literal("off")), // the gateway tries again
		conf.D("proxy_read_timeout", conf.Time(effective.LongestFetch(r.Spec.Origin))),
	}
	return append(block, r.ownControl()...)
}

// asksNothing sets the variables about a cache that asks the gateway, in a location without it. They are set in
// locations and not in the server, whose directives a mirror request runs too: it shares all variables with the
// client's request.
func (r renderer) asksNothing() conf.Block {
	return append(conf.Block{
		conf.D("set", conf.Expression(gatewayDisk), conf.Literal("")),
		conf.D("set", conf.Expression(fromVariable), conf.Literal("")),
	}, r.notSliced("")...)
}

// ownControl gives clients the origin's own Cache-Control instead of the stored one.
func (r renderer) ownControl() conf.Block {
	if r.door == toPeers { // the other pod does that, or stores the response as it is stored here
		return r.hidden(sharedHeader)
	}
	block := r.hidden("Cache-Control", originHeader, sharedHeader)
	if r.Spec.Headers.Response.Names("Cache-Control") {
		return block
	}
	return append(block,
		conf.D("add_header", conf.Literal("Cache-Control"), conf.Expression(clientVariable), conf.Literal("always")))
}

// hidden are the headers of responses that clients do not see: the origin's own of the names that we set, and more.
// Other pods see all but those of CacheNode's own names. The gateway hides these too, but objects may have been stored
// with them.
func (r renderer) hidden(more ...string) conf.Block {
	var block conf.Block
	if r.door == toClients {
		for _, h := range r.headers(conf.Literal(""), conf.Literal("")) {
			block = append(block, conf.D("proxy_hide_header", h.Args[0]))
		}
		for _, name := range r.Spec.Headers.Response.Remove {
			more = append(more, string(name))
		}
		more = append(more, effective.TagHeaders(r.Spec)...)
	}
	return append(block, hides(append(more, ownNames()...)...)...)
}

// ownNames are the headers that a response has only from a part of a CacheNode. Those of an origin are hidden.
func ownNames() []string { return append([]string{statusHeader, placeHeader}, privateHeaders...) }

// hides has a location leave headers out of responses. It replaces the list of the server.
func hides(names ...string) (block conf.Block) {
	for _, name := range names {
		block = append(block, conf.D("proxy_hide_header", conf.Literal(name)))
	}
	return block
}

func (r renderer) statusHeaders() bool { return ptr.Deref(r.Spec.Cache.StatusHeaders, true) }

// headers are the response headers that a location adds which answers in this pod.
func (r renderer) headers(status, disk conf.Argument) conf.Block {
	return r.answerHeaders(status, disk, noHop)
}

// answerHeaders are the response headers that a location adds: how the response came about, and those of the spec. hop
// says which pod answered.
func (r renderer) answerHeaders(status, disk conf.Argument, hop string) conf.Block {
	header := func(name string, value conf.Argument) conf.Directive {
		return conf.D("add_header", conf.Literal(name), value, conf.Literal("always"))
	}
	if r.door == toPeers {
		return conf.Block{header(statusHeader, status), header(placeHeader, disk)}
	}
	var block conf.Block
	if r.statusHeaders() {
		block = conf.Block{header("X-Cache", status), header("X-Cache-Disk", disk)}
	}
	if r.statusHeaders() && r.isSharded() {
		block = append(block, header("X-Cache-Hop", conf.Literal(hop)))
	}
	if r.Spec.Cache.NodeHeader {
		block = append(block, header("X-Cache-Node", conf.Expression("$hostname")))
	}
	if r.speaksHTTP3() {
		block = append(block, header("Alt-Svc", conf.Expression(altSvc)))
	}
	for _, h := range r.Spec.Headers.Response.Set {
		block = append(block, header(string(h.Name), conf.Literal(h.Value)))
	}
	return block
}
