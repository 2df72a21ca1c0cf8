package cache

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// onOwner and onStandIn are the locations that look an object up in another pod, fetchOwner and fetchStandIn those
	// that have that pod fetch it, and foundOnOwner and foundOnStandIn those that get what it has said that it has.
	onOwner        = "@owner"
	onStandIn      = "@stand_in"
	fetchOwner     = "@fetch_from_owner"
	fetchStandIn   = "@fetch_from_stand_in"
	foundOnOwner   = "@found_on_owner"
	foundOnStandIn = "@found_on_stand_in"

	// afterOwner and afterStandIn are the locations after an answer that may be nginx's own and not about the object.
	afterOwner   = "$after_owner"
	afterStandIn = "$after_stand_in"

	// absent is the status with which a pod answers that it does not have an object. No origin has it.
	absent = "470"

	// plainVariable is 1 for a request that any copy of the object answers: GET or HEAD without body or credentials.
	plainVariable = "$is_plain"

	// askHeader says what a pod wants of another one, see lookup.
	askHeader    = "X-CacheNode-Ask"
	askInRequest = "$http_x_cachenode_ask"
	// statusHeader and placeHeader say how another pod got its response, and from which disk.
	statusHeader   = "X-CacheNode-Status"
	statusInAnswer = "$upstream_http_x_cachenode_status"
	placeHeader    = "X-CacheNode-Place"
	placeInAnswer  = "$upstream_http_x_cachenode_place"

	// connectTimeout is how long a pod may take to accept a connection.
	connectTimeout = 300 * time.Millisecond

	// leastPatience is how long at least a pod may take for each read of an object that it has: a busy hard disk, with
	// requests that wait in its thread pool.
	leastPatience = 10 * time.Second
)

// plain returns the map for plainVariable, if something needs it.
func (k core) plain() conf.Block {
	if !k.hasMemoryTier() && !k.hops() {
		return nil
	}
	return conf.Block{conf.Map("$request_method:"+passVariable, plainVariable,
		conf.Row(conf.Literal("GET:"), conf.Literal("1")),
		conf.Row(conf.Literal("HEAD:"), conf.Literal("1")),
		conf.D("default", conf.Literal(""))).
		WithComment("What is looked up in the memory tier or in another pod.")}
}

// dispatch returns the location that passes each request on to the one that answers it.
//
// In a location to which nginx has redirected a request, it always escapes the path that it passes on. Elsewhere it
// passes some characters on as the client wrote them, escaped or not, which $uri does not tell apart.
func dispatch(place conf.Argument, first ...conf.Directive) conf.Directive {
	return location("/", slices.Concat(
		first, orAt(place), conf.Block{conf.D("return", conf.Literal("418"))})...)
}

const (
	// redirectedVariable is pass for a request that the origin has redirected to a path of its own (X-Accel-Redirect),
	// and else "". atOnceVariable is the location of a request that is not looked up in memory, and else "".
	redirectedVariable = "$redirected"
	atOnceVariable     = "$at_once"
)

// atOnce makes a server pass on what its location "/" is not for, before nginx looks for a location.
//
// What the origin redirects to has the key of the first path, and the origin may have decided for one client alone. So
// it is neither stored nor served from a cache. And the memory tier's location takes no large body (see bodies.go).
// nginx runs these directives for the memory tier's subrequests too, for which they must do nothing.
func (d door) atOnce() conf.Block {
	leaves := func(where conf.Expression, first ...conf.Directive) conf.Directive {
		return conf.B("if", []conf.Argument{"(" + where + ")"}, append(first, conf.D("return", conf.Literal("418")))...)
	}
	where, redirected := conf.Expression(redirectedVariable), leaves(redirectedVariable)
	if !d.hasMemoryTier() || d.toPeers {
		return append(orAt(where), redirected)
	}
	// A request that is redirected may have fallen back before.
	return append(orAt(conf.Expression(atOnceVariable)), redirected, leaves(atOnceVariable, falls(conf.Literal(""))))
}

// orAt makes status 418 lead to a location.
func orAt(where conf.Argument) conf.Block {
	return conf.Block{
		conf.D("error_page", conf.Literal("418"), conf.Literal("="), where),
		conf.D("recursive_error_pages", conf.OnOff(true)),
	}
}

// atOnceMaps returns the maps for that.
func (k core) atOnceMaps() conf.Block {
	block := conf.Block{conf.Map("$upstream_http_x_accel_redirect", redirectedVariable,
		conf.D("volatile"), conf.D("default", conf.Literal(pass)), conf.Row(conf.Literal(""), conf.Literal("")))}
	if !k.hasMemoryTier() {
		return block
	}
	return append(block, conf.Map(redirectedVariable+":"+plainVariable+":$uri", atOnceVariable,
		conf.D("volatile"), conf.D("default", k.place()),
		conf.Row(conf.Expression("~^@"), conf.Literal(pass)),
		conf.Row(conf.Expression("~^:1:"), conf.Literal("")),
		conf.Row(conf.Expression("~^::/[.]cachenode-(?:promote|renew)$"), conf.Literal(""))))
}

// hops asks other pods for what they own.
type hops struct{ door }

// hop is a pod that is asked.
type hop struct {
	// pod is the variable with its name. look, fetch and found are the locations that ask it.
	pod, look, fetch, found string
	// next is where a request goes if the pod does not answer. after is the variable that is found if the answer is about
	// the object, and else next.
	next  conf.Argument
	after string
	tag   string
}

// hopLocations returns the locations that ask the owner of a key, or its stand-in.
//
// The first question is only for what is cached, and must be answered within the time of a disk's probe. So a pod or a
// disk that hangs is found without taking a slow origin for one. If the object is not cached there, the second question
// has the pod fetch it, for as long as an origin may take.
//
// The limit of time also holds between two reads of a body. Where a disk may take long for one without having failed
// (see asksFirst), the first question is for the header alone, and the body comes by the second. A pod that has the
// object then gets the time of some probes, or one that stops between the two would take that of a slow origin.
func (p hops) hopLocations() conf.Block {
	if !p.hops() {
		return nil
	}
	var block conf.Block
	for _, h := range []hop{
		{
			ownerVariable, onOwner, fetchOwner, p.found(foundOnOwner, fetchOwner),
			conf.Expression(orStandIn), afterOwner, agentapi.TagPeer,
		},
		{
			standInVariable, onStandIn, fetchStandIn, p.found(foundOnStandIn, fetchStandIn),
			conf.Expression(hereVariable), afterStandIn, agentapi.TagStandIn,
		},
	} {
		block = append(block, p.look(h), p.fetch(h, h.fetch, p.LongestFetch()+connectTimeout))
		if h.found != h.fetch {
			block = append(block, p.fetch(h, h.found, max(leastPatience, 5*p.hopTimeout())))
		}
	}
	return append(block, p.unsatisfiable(rangeOverHop, agentapi.TagPeer))
}

// asksFirst returns true if a pod asks for the header of an object before it asks for the object: hard disks may take
// longer for a read than a hop waits, and only the first slice of an object can be looked up.
func (s site) asksFirst() bool {
	for _, d := range s.Spec.Disks {
		if d.Media != v1alpha1.SSD && d.Media != v1alpha1.NVMe {
			return true
		}
	}
	return s.hasSlices()
}

// found returns the location for what a pod has said that it has. Of slices, it has said so of the first alone, so the
// others may take as long as an origin.
func (s site) found(found, fetch string) string {
	if s.asksFirst() && !s.hasSlices() {
		return found
	}
	return fetch
}

// hopTimeout returns how long a pod may take to look an object up: as long as the slowest disk's probe.
func (n node) hopTimeout() time.Duration {
	var longest time.Duration
	for _, d := range n.Spec.Disks {
		longest = max(longest, effective.ProbeTimeout(d))
	}
	return longest
}

// afterMaps returns the maps for afterOwner and afterStandIn. An answer about the object asks for a redirect where the
// first question is for the header alone; elsewhere, a stored 400 is like none.
func (k core) afterMaps() conf.Block {
	after := func(variable, next conf.Expression, found string) conf.Directive {
		rows := conf.Block{conf.D("default", next)}
		if k.asksFirst() {
			rows = append(rows, conf.Row(conf.Expression("~^@"), conf.Literal(found)))
		}
		return conf.Map("$upstream_http_x_accel_redirect", variable, rows...)
	}
	return conf.Block{
		after(afterOwner, orStandIn, k.found(foundOnOwner, fetchOwner)),
		after(afterStandIn, hereVariable, k.found(foundOnStandIn, fetchStandIn)),
	}
}

// look asks a pod for what it has cached.
func (p hops) look(h hop) conf.Directive {
	ask := ""
	block := conf.Block{
		p.toPeer(lookupName + "${" + h.pod[1:] + "}_" + diskVariable),
		conf.D("proxy_read_timeout", conf.Time(p.hopTimeout())),
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		conf.D("error_page", conf.Literal(absent), conf.Literal("="), conf.Literal(h.fetch)),
		conf.D("proxy_pass_request_body", conf.OnOff(false)),
		setHeader("Content-Length", conf.Literal("")),
	}
	if p.asksFirst() {
		ask = h.found
		block = append(block, conf.D("proxy_method", conf.Literal("HEAD")))
	}
	// What a server answers before it looks at its locations: a line that is too long, a protocol that it does not
	// expect, no memory. A client must not get it, least of all without its body.
	block = append(block, conf.D("error_page", append(conf.Literals("400", "414", "421", "500", "503", "505", "="),
		conf.Expression(h.after))...))
	block = append(block, p.overHop(h, ask)...)
	if p.hasMemoryTier() && h.look == onOwner {
		block = append(block, mirrored()...)
	}
	return location(h.look, block...)
}

// fetch returns a location that makes a pod fetch an object, or send what it has. patience is how long the pod may take
// for the header, and between two reads of the body.
//
// A request that the stand-in does not fetch either has taken so many of nginx's redirects that it goes to the location
// waiting of its disk, which fails over to the origin at once. For that, it has to have a disk.
func (p hops) fetch(h hop, name string, patience time.Duration) conf.Directive {
	last := h.look == onStandIn && len(p.disks) > 0
	if last {
		h.next = conf.Literal(waiting)
	}
	block := conf.Block{
		p.toPeer(peerName + h.pod),
		conf.D("proxy_read_timeout", conf.Time(patience)),
		conf.D("error_page", conf.Literal("416"), conf.Literal("="), conf.Literal(rangeOverHop)), // see noSuchRange
	}
	block = append(block, p.overHop(h, "")...)
	if last {
		block = append(block, set(gatewayDisk, conf.Expression(diskVariable)))
	}
	return location(name, block...)
}

// toPeer passes a request on to another pod, as the client sent it.
func (n node) toPeer(upstream string) conf.Directive {
	scheme := "http://"
	if n.peersTLS() {
		scheme = "https://"
	}
	return conf.D("proxy_pass", conf.Expression(scheme+upstream))
}

// overHop returns what all questions to pods have in common.
func (p hops) overHop(h hop, ask string) conf.Block {
	block := append(p.peerHeaders(ask),
		conf.D("error_page", conf.Literal("502"), conf.Literal("504"), conf.Literal("="), h.next),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_send_timeout", conf.Literal("1s")),
		conf.D("proxy_next_upstream", conf.Literal("error"), conf.Literal("timeout")),
		// Few reads and writes for a large body. Headers are those of a stored response, and what the other pod adds.
		conf.D("proxy_buffer_size", conf.Literal("24k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("64k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("128k")),
		// nginx adds Accept-Ranges after a lookup in memory. Without this, the other pod's header would be there too.
		conf.D("proxy_force_ranges", conf.OnOff(true)))
	block = append(block, p.awaitsBody()...)
	block = append(block, p.peerClientTLS()...)
	block = append(block, silent()...)
	block = append(block, p.rangesAsTheyAre()...)
	block = append(block, p.asksNothing()...)
	block = append(block, p.ownControl()...)
	block = append(block, p.logs(h.tag)...)
	return append(block, p.answerHeaders(conf.Expression(statusInAnswer), conf.Expression(placeInAnswer), h.tag)...)
}

// peerHeaders returns the headers of requests to another pod. It gets what the client sent, but for the headers that
// only pods may send.
func (d door) peerHeaders(ask string) conf.Block {
	scheme := conf.Argument(conf.Literal(""))
	if d.tellsScheme() {
		scheme = conf.Expression(schemeVariable)
	}
	block := conf.Block{
		setHeader("Host", conf.Expression("$host")),
		setHeader("Connection", conf.Literal("")),
		setHeader("X-Forwarded-For", d.forwardedFor()),
		setHeader(schemeHeader, scheme),
		setHeader(askHeader, conf.Literal(ask)),
	}
	for _, name := range []string{
		stateHeader, diskHeader, sliceHeader, renewHeader, fillHeader, formerHeader, fallbackHeader,
	} {
		block = append(block, setHeader(name, conf.Literal("")))
	}
	return block
}
