package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// otherDisk is the location for requests whose own disk fails. They fail over to the next disk, with its cache and its
	// lock. So the origin gets one request for an object instead of one from each client.
	otherDisk = "@other_disk"
	// uncached is the location for requests that no disk can serve.
	uncached = "@uncached"
	// rangeOnDisk, rangeInMemory and rangeOverHop are the locations for a range that the stored object does not have.
	rangeOnDisk   = "@no_such_range"
	rangeInMemory = "@no_such_range_in_memory"
	rangeOverHop  = "@no_such_range_over_hop"
)

// public is the part of the configuration with the servers that clients reach.
type public struct{ door }

// servers returns the server with the cache. If the site lists hosts, it also returns the server that answers 421 to
// requests for any other host.
func (p public) servers() conf.Block {
	k, l := core{p.site}, listeners{p.node}
	block := slices.Concat(k.requestMaps(), k.sliceMaps(), k.plain(), k.fleetMaps(), k.fillMaps(), k.generations(),
		l.doorMaps(), k.atOnceMaps())
	if p.ofRoutes {
		r := routed{p.node}
		return append(block, p.server(slices.Concat(r.listen(), r.secure(), r.answers())))
	}
	if len(p.Hosts) == 0 {
		return append(block, p.server(append(l.ofDefault(), conf.D("server_name", conf.Literal("_")))))
	}
	var names []conf.Argument
	for _, h := range p.Hosts {
		names = append(names, conf.Literal(h))
	}
	return append(block,
		conf.B("server", nil, append(slices.Concat(l.ofDefault(), l.protocols(), l.clientTimeouts()), // limits the header
			conf.D("server_name", conf.Literal("_")),
			conf.D("return", conf.Literal("421")))...),
		p.server(append(l.ofNamed(), conf.D("server_name", names...))))
}

// nothing returns the server for clients of a CacheNode that has no site of its own. It answers 404.
func (l listeners) nothing() conf.Directive {
	return conf.B("server", nil, append(slices.Concat(l.ofDefault(), l.protocols(), l.clientTimeouts()),
		conf.D("server_name", conf.Literal("_")), refusesMalformed(), conf.D("return", conf.Literal("404")))...)
}

// server returns the server with the cache.
//
// error_page handles failures before the header of the response is sent. An I/O error of the disk and a full queue of
// its thread pool both end as 500. The request then goes to another disk and, if that fails too, to the origin. The
// origin's own errors pass through, because proxy_intercept_errors is off.
func (p public) server(listen conf.Block) conf.Directive {
	// A date later than Last-Modified means the same as an equal date (RFC 9110, section 13.1.3).
	l := listeners{p.node}
	block := append(slices.Concat(listen, l.protocols(), l.clientTimeouts()),
		conf.D("if_modified_since", conf.Literal("before")), refusesMalformed())
	block = slices.Concat(block, l.clientAddress(), l.gzip(), l.clientLimit(), p.normalized(), p.toOrigin(),
		p.hidden(originHeader, sharedHeader), p.scheme("$scheme"), p.atOnce())
	var popular conf.Block
	if p.hasMemoryTier() {
		block = append(block, tier(p).publicLocations()...)
		popular = mirrored()
	} else {
		block = append(block, dispatch(p.place(), falls(conf.Literal(""))))
	}
	return conf.B("server", nil,
		slices.Concat(block, hops(p).hopLocations(), store(p).hereLocations(popular))...)
}
