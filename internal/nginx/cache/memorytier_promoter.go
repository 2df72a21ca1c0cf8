package cache

import (
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// copyFrom is the location from which a copy for the memory tier comes, copyingFromOwner the one for another pod's.
	copyFrom         = "$copy_from"
	copyingFromOwner = "@copying_from_owner"
)

// toPromoter is the location that tells the promoter of a hot object that is not in memory.
func (r renderer) toPromoter() conf.Directive {
	unless := conf.B("if",
		[]conf.Argument{conf.Expression("(" + hotVariable), conf.Literal("!="), conf.Literal("1)")},
		conf.D("return", conf.Literal("204")))
	return conf.B("location", conf.Literals("=", promote), append(conf.Block{
		conf.D("internal"), unless,
		conf.D("proxy_set_header", conf.Literal(renewHeader), conf.Literal("")), // drops a client's own
	}, r.tellPromoter()...)...)
}

// toRenewal is the location that tells the promoter of an expired copy in memory.
func (r renderer) toRenewal() conf.Directive {
	return conf.B("location", conf.Literals("=", renew), append(conf.Block{
		conf.D("internal"),
		conf.D("sendfile", conf.OnOff(false)), // a subrequest decides for the client's connection, see renewed
		conf.D("proxy_set_header", conf.Literal(renewHeader), conf.Literal("1")),
		// A client waits for this. If it takes longer, the request goes to the disk.
		conf.D("proxy_connect_timeout", conf.Literal("1s")), conf.D("proxy_read_timeout", conf.Literal("1s")),
	}, r.tellPromoter()...)...)
}

func (r renderer) tellPromoter() conf.Block {
	return append(conf.Block{
		conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+"$request_uri")),
		conf.D("proxy_method", conf.Literal("HEAD")), // the response has no body to read
		conf.D("proxy_pass_request_body", conf.OnOff(false)),
		conf.D("proxy_set_header", conf.Literal("Content-Length"), conf.Literal("")),
	}, r.askHeaders()...)
}

// askHeaders are the headers of requests to a private server. In a location that caches, nginx itself leaves out the
// client's conditions and ranges.
func (r renderer) askHeaders() conf.Block {
	block := conf.Block{
		conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$host")),
		conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
	}
	if r.tellsScheme() {
		block = append(block, conf.D("proxy_set_header", conf.Literal(schemeHeader), conf.Expression(schemeVariable)))
	}
	return block
}

// promoterServer copies objects into memory. Its answer passes through its own socket again, so that it comes after the
// fetch has begun, when requests for an expired copy find it being renewed.
func (r renderer) promoterServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.PromoterSocket)),
		refusesMalformed(),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		quiet(),
	}, r.scheme(schemeInRequest)...)
	return conf.B("server", nil, append(block,
		conf.B("location", conf.Literals("/"), append(mirrored(),
			// A connection takes no other request until its fetch is done, so each serves one request only.
			conf.D("keepalive_timeout", conf.Literal("0")),
			conf.D("limit_req", "zone="+r.keyedZone("renewed"), conf.Literal("burst=2"), conf.Literal("nodelay")),
			// The variants of an object have one key, and thus one limit.
			conf.D("limit_req", "zone="+r.keyedZone("promoted"), conf.Literal("burst=2"), conf.Literal("nodelay")),
			conf.D("limit_req",
				conf.Literal("zone=copies"),
				conf.Literal("burst="+strconv.Itoa(copies(r.Spec.MemoryTier))),
				conf.Literal("nodelay")),
			// A request beyond a limit is answered without a fetch.
			conf.D("error_page", conf.Literal("503"), conf.Literal("="), conf.Literal(promoted)),
			// Without a variable, nginx would insert the path before the client's.
			conf.D("proxy_pass", conf.Expression("http://"+promoterUpstream+promoted+"$is_args$args")))...),
		conf.B("location", conf.Literals("=", promoted), conf.D("return", conf.Literal("204"))),
		conf.B("location", conf.Literals("=", promote), append(conf.Block{
			conf.D("internal"),
			conf.D("limit_conn", r.keyedZone("promoting"), conf.Literal("1")),
			conf.D("proxy_pass", conf.Expression("http://"+disksUpstream+"$request_uri")),
			conf.D("proxy_method", conf.Literal("GET")),
			conf.D("proxy_pass_request_body", conf.OnOff(false)),
			conf.D("proxy_ignore_headers",
				conf.Literal("Cache-Control"), conf.Literal("Expires"), conf.Literal("X-Accel-Limit-Rate")),
			conf.D("proxy_cache", conf.Literal(memoryZone)),
			conf.D("proxy_cache_key", r.key()),
			conf.D("proxy_cache_revalidate", conf.OnOff(true)),
			conf.D("proxy_cache_use_stale", conf.Literal("updating")), // another fetch is under way
			// While a disk does not answer, an expired copy is served for this time at most.
			conf.D("proxy_read_timeout", conf.Literal("10s")),
		}, r.askHeaders()...)...),
		conf.B("location", conf.Literals(discard), conf.D("return", conf.Literal("204"))))...)
}

// disksServer gives the memory tier what is fresh on the disks, and nothing else.
func (r renderer) disksServer() conf.Directive {
	block := append(conf.Block{
		conf.D("listen", conf.Literal("unix:"+layout.DisksSocket)),
		refusesMalformed(),
		passDate(),
	}, append(silent(), r.scheme(schemeInRequest)...)...)
	root := "/"
	if r.hops() {
		root = copying
		block = append(block, r.ownersCopy()...)
	}
	return conf.B("server", nil, append(block, r.tierSource(root)...)...)
}

// tierSource are the locations that have what is fresh on the pod's disks, for the memory tier of this pod or another.
func (r renderer) tierSource(root string) conf.Block {
	if !r.hasSlices() {
		return conf.Block{conf.B("location", conf.Literals(root), r.onDisks(false)...)}
	}
	sliced := append(r.onDisks(true), r.slices()...)
	sliced = append(sliced,
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), failoverOf(unsliced)),
		conf.D("recursive_error_pages", conf.OnOff(true)))
	return conf.Block{
		conf.B("location", conf.Literals(root), sliced...),
		conf.B("location", conf.Literals(unsliced), append(r.onDisks(false), r.notSliced("no")...)...),
	}
}

// copyMap says where a copy for the memory tier comes from.
func (r renderer) copyMap() conf.Block {
	if !r.hops() {
		return nil
	}
	from := conf.B("map", []conf.Argument{conf.Expression(ownerVariable), conf.Expression(copyFrom)},
		conf.D("default", conf.Literal(copying)))
	for _, pod := range r.others(r.Facts.Fleet.Owners) {
		from.Block = append(from.Block, conf.D(fleet.Name(pod), conf.Literal(copyingFromOwner)))
	}
	return conf.Block{from}
}

// ownersCopy are the locations that have what is fresh on the disks of the pod that owns the key.
func (r renderer) ownersCopy() conf.Block {
	block := append(conf.Block{
		r.toPeer(lookupName + "${" + ownerVariable[1:] + "}_" + diskVariable),
		// Also between two reads of a body. No client waits for it.
		conf.D("proxy_read_timeout", conf.Time(3*r.hopTimeout())),
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_ignore_headers", accelHeaders()...),
	}, r.peerHeaders(askCopy)...)
	block = append(block, passed(append(accelHeaders(), conf.Literal("Date")))...) // replaces the server's list
	return conf.Block{
		conf.B("location", conf.Literals("/"),
			conf.D("error_page", conf.Literal("418"), conf.Literal("="), conf.Expression(copyFrom)),
			conf.D("recursive_error_pages", conf.OnOff(true)),
			conf.D("return", conf.Literal("418"))),
		conf.B("location", conf.Literals(copyingFromOwner), append(block, r.peerClientTLS()...)...),
	}
}

// silent has a location without an upstream log nothing about that. nginx logs the missing upstream as an error, and
// the failure of a disk at a higher level.
func silent() conf.Block {
	return conf.Block{
		conf.D("error_log", conf.Literal("stderr"), conf.Literal("crit")),
		conf.D("error_log", toAgent("error"), conf.Literal("crit")),
	}
}

// onDisks answers from the disks, from slices or from whole objects.
func (r renderer) onDisks(sliced bool) conf.Block {
	location := conf.Block{conf.D("proxy_pass", conf.Literal("http://"+nowhere))}
	location = append(append(location, r.cacheOf(diskVariable, r.storedKey(sliced))...),
		conf.D("proxy_cache_min_uses", conf.Int(ptr.Deref(r.Spec.Cache.MinUses, 1))),
		conf.D("add_header", conf.Literal("X-Accel-Redirect"), conf.Expression(discardVariable)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(copyVariable)))
	return append(location, r.diskIO(diskVariable)...)
}
