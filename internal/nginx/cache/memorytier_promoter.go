package cache

import (
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// copyFrom contains the location from which a copy for the memory tier comes. copyingFromOwner is that location if
	// another pod owns the key.
	copyFrom         = "$copy_from"
	copyingFromOwner = "@copying_from_owner"
)

// toPromoter returns the location that tells the promoter about a hot object that is not in memory.
func (m tier) toPromoter() conf.Directive {
	unless := conf.B("if",
		[]conf.Argument{conf.Expression("(" + hotVariable), conf.Literal("!="), conf.Literal("1)")},
		conf.D("return", conf.Literal("204")))
	return exactly(promote, append(conf.Block{
		conf.D("internal"), unless,
		setHeader(renewHeader, conf.Literal("")), // removes the client's own header
	}, m.tellPromoter()...)...)
}

// toRenewal returns the location that tells the promoter about an expired copy in memory.
func (m tier) toRenewal() conf.Directive {
	return exactly(renew, append(conf.Block{
		conf.D("internal"),
		conf.D("sendfile", conf.OnOff(false)), // a subrequest also decides this for the client's connection, see renewed
		setHeader(renewHeader, conf.Literal("1")),
		// A client waits for this subrequest. If it takes longer than a second, the request goes to the disk.
		conf.D("proxy_connect_timeout", conf.Literal("1s")), conf.D("proxy_read_timeout", conf.Literal("1s")),
	}, m.tellPromoter()...)...)
}

func (m tier) tellPromoter() conf.Block {
	return append(conf.Block{
		conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+"$request_uri")),
		conf.D("proxy_method", conf.Literal("HEAD")), // the response has no body to read
		conf.D("proxy_pass_request_body", conf.OnOff(false)),
		setHeader("Content-Length", conf.Literal("")),
	}, m.askHeaders()...)
}

// askHeaders returns the headers of requests to a private server. In a location that caches, nginx itself leaves out
// the client's conditions and ranges.
func (m tier) askHeaders() conf.Block {
	block := conf.Block{
		setHeader("Host", conf.Expression("$host")),
		setHeader("Connection", conf.Literal("")),
	}
	block = append(block, m.tellsRoute()...)
	if m.tellsScheme() {
		block = append(block, setHeader(schemeHeader, conf.Expression(schemeVariable)))
	}
	return block
}

// promoterServer returns the server that copies objects into memory. Its answer passes through its own socket once
// more, so that the answer comes after the fetch has begun. Requests for an expired copy then find that the copy is
// being renewed.
func (m tier) promoterServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.PromoterSocket)),
		refusesMalformed(),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		quiet(),
	}, m.scheme(schemeInRequest)...)
	return conf.B("server", nil, append(block,
		location("/", append(mirrored(),
			// A connection takes no other request until its fetch has ended, so each connection serves only one request.
			conf.D("keepalive_timeout", conf.Literal("0")),
			conf.D("limit_req", "zone="+m.keyedZone("renewed"), conf.Literal("burst=2"), conf.Literal("nodelay")),
			// The variants of an object have one key, and thus one limit.
			conf.D("limit_req", "zone="+m.keyedZone("promoted"), conf.Literal("burst=2"), conf.Literal("nodelay")),
			conf.D("limit_req",
				conf.Literal("zone=copies"),
				conf.Literal("burst="+strconv.Itoa(copies(m.Spec.MemoryTier))),
				conf.Literal("nodelay")),
			// A request beyond a limit is answered without a fetch.
			conf.D("error_page", conf.Literal("503"), conf.Literal("="), conf.Literal(promoted)),
			// Without a variable in this directive, nginx would insert this path before the client's path.
			conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+promoted+"$is_args$args")))...),
		exactly(promoted, conf.D("return", conf.Literal("204"))),
		exactly(promote, append(conf.Block{
			conf.D("internal"),
			conf.D("limit_conn", m.keyedZone("promoting"), conf.Literal("1")),
			conf.D("proxy_pass", conf.Expression("http://"+disksUpstream+"$request_uri")),
			conf.D("proxy_method", conf.Literal("GET")),
			conf.D("proxy_pass_request_body", conf.OnOff(false)),
			conf.D("proxy_ignore_headers",
				conf.Literal("Cache-Control"), conf.Literal("Expires"), conf.Literal("X-Accel-Limit-Rate")),
			conf.D("proxy_cache", conf.Literal(memoryZone)),
			conf.D("proxy_cache_key", m.key()),
			conf.D("proxy_cache_revalidate", conf.OnOff(true)),
			conf.D("proxy_cache_use_stale", conf.Literal("updating")), // another fetch is under way
			// While a disk does not answer, an expired copy is served for this time at most.
			conf.D("proxy_read_timeout", conf.Literal("10s")),
		}, m.askHeaders()...)...),
		location(discard, conf.D("return", conf.Literal("204"))))...)
}

// disksServer returns the server that gives the memory tier fresh objects from the disks, and nothing else.
func (m tier) disksServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.DisksSocket)),
		refusesMalformed(),
		passDate(),
	}, slices.Concat(m.unknownRoute("204"), silent(), m.scheme(schemeInRequest))...)
	root := "/"
	if m.hops() {
		root = copying
		block = append(block, m.ownersCopy()...)
	}
	return conf.B("server", nil, append(block, m.tierSource(root)...)...)
}

// tierSource returns the locations that serve fresh objects from the pod's disks, for the memory tier of this pod or
// of another pod.
func (m tier) tierSource(root string) conf.Block {
	if !m.hasSlices() {
		return conf.Block{location(root, m.onDisks(false)...)}
	}
	sliced := append(m.onDisks(true), m.slices()...)
	sliced = append(sliced,
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), failoverOf(unsliced)),
		conf.D("recursive_error_pages", conf.OnOff(true)))
	return conf.Block{
		location(root, sliced...),
		location(unsliced, append(m.onDisks(false), m.notSliced("no")...)...),
	}
}

// copyMap returns the map for copyFrom.
func (k core) copyMap() conf.Block {
	if !k.hops() {
		return nil
	}
	rows := conf.Block{conf.D("default", conf.Literal(copying))}
	for _, pod := range k.others(k.Facts.Fleet.Owners) {
		rows = append(rows, conf.D(fleet.Name(pod), conf.Literal(copyingFromOwner)))
	}
	return conf.Block{conf.Map(ownerVariable, copyFrom, rows...)}
}

// ownersCopy returns the locations that get fresh objects from the disks of the pod that owns the key.
func (m tier) ownersCopy() conf.Block {
	block := append(conf.Block{
		m.toPeer(m.lookupName() + "${" + ownerVariable[1:] + "}_" + diskVariable),
		// This timeout also applies between two reads of a body. No client waits for this request.
		conf.D("proxy_read_timeout", conf.Time(3*m.hopTimeout())),
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_ignore_headers", accelHeaders()...),
	}, m.peerHeaders(askCopy)...)
	block = append(block, passed(append(accelHeaders(), conf.Literal("Date")))...) // replaces the server's list
	return conf.Block{
		location("/",
			conf.D("error_page", conf.Literal("418"), conf.Literal("="), conf.Expression(copyFrom)),
			conf.D("recursive_error_pages", conf.OnOff(true)),
			conf.D("return", conf.Literal("418"))),
		location(copyingFromOwner, append(block, m.peerClientTLS()...)...),
	}
}

// silent keeps nginx from logging that a location has no upstream. nginx logs that at the level error, and the
// failure of a disk at a higher level.
func silent() conf.Block {
	return conf.Block{
		conf.D("error_log", conf.Literal("stderr"), conf.Literal("crit")),
		conf.D("error_log", toAgent("error"), conf.Literal("crit")),
	}
}

// onDisks returns the directives that answer from the disks, from slices or from whole objects.
func (m tier) onDisks(sliced bool) conf.Block {
	location := conf.Block{conf.D("proxy_pass", conf.Literal("http://"+nowhere))}
	location = append(append(location, m.cacheOf(diskVariable, m.storedKey(sliced))...),
		conf.D("proxy_cache_min_uses", conf.Int(ptr.Deref(m.Cache.MinUses, 1))),
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Expression(discardVariable)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(copyVariable)))
	return append(location, m.diskIO(diskVariable)...)
}
