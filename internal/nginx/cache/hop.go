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
	// onOwner and onStandIn are the locations that look an object up in another pod. fetchOwner and fetchStandIn are the
	// locations that make that pod fetch the object. foundOnOwner and foundOnStandIn are the locations that get an
	// object after that pod has answered that it has the object.
	onOwner        = "@owner"
	onStandIn      = "@stand_in"
	fetchOwner     = "@fetch_from_owner"
	fetchStandIn   = "@fetch_from_stand_in"
	foundOnOwner   = "@found_on_owner"
	foundOnStandIn = "@found_on_stand_in"

	// afterOwner and afterStandIn contain the next location after a status that the other pod's nginx may have sent
	// without looking at the object.
	afterOwner   = "$after_owner"
	afterStandIn = "$after_stand_in"

	// absent is the status with which a pod answers that it does not have an object. No origin sends this status.
	absent = "470"

	// plainVariable is 1 for a request that any copy of the object answers: GET or HEAD without body or credentials.
	plainVariable = "$is_plain"

	// askHeader tells a pod why another pod asks it for an object; see askCopy.
	askHeader    = "X-CacheNode-Ask"
	askInRequest = "$http_x_cachenode_ask"
	// statusHeader shows how another pod got its response. placeHeader shows from which disk the response came.
	statusHeader   = "X-CacheNode-Status"
	statusInAnswer = "$upstream_http_x_cachenode_status"
	placeHeader    = "X-CacheNode-Place"
	placeInAnswer  = "$upstream_http_x_cachenode_place"

	// connectTimeout is how long a pod may take to accept a connection.
	connectTimeout = 300 * time.Millisecond

	// leastPatience is the minimum time that a pod gets for each read of an object that it has. A busy hard disk may
	// need that long, because requests wait in its thread pool.
	leastPatience = 10 * time.Second
)

// plain returns the map for plainVariable, if the memory tier or a hop needs the map.
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

// dispatch returns the location "/", which passes each request on to the location that answers it.
//
// In a location to which nginx has redirected a request, nginx always escapes the path that it passes on. In other
// locations, nginx passes some characters on as the client wrote them, escaped or not. $uri does not distinguish these
// two forms. Because dispatch redirects every request, nginx always passes $uri on in one form.
func dispatch(place conf.Argument, first ...conf.Directive) conf.Directive {
	return location("/", slices.Concat(
		first, orAt(place), conf.Block{conf.D("return", conf.Literal("418"))})...)
}

const (
	// redirectedVariable is pass for a request that the origin has redirected to a path of its own (X-Accel-Redirect),
	// and "" otherwise. atOnceVariable contains the location of a request that is not looked up in memory, and "" for
	// any other request.
	redirectedVariable = "$redirected"
	atOnceVariable     = "$at_once"
)

// atOnce makes a server pass on the requests that its location "/" must not get, before nginx chooses a location.
//
// After an internal redirect by the origin (X-Accel-Redirect), a request still has the key of its first path, and the
// origin may have chosen the new path for this client only. So the response is neither stored nor served from a cache.
// The memory tier's location does not take large bodies either (see bodies.go). nginx also runs these directives for
// the subrequests of the memory tier, where they must do nothing.
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

// atOnceMaps returns the maps for redirectedVariable and atOnceVariable.
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

// hops is the part of the configuration that asks other pods for objects whose keys they own.
type hops struct{ door }

// hop describes how this pod asks one other pod: the owner of a key or its stand-in.
type hop struct {
	// pod is the variable with the name of the pod. look, fetch and found are the locations that ask the pod.
	pod, look, fetch, found string
	// next is the location to which a request goes if the pod does not answer. after is the variable that contains found
	// if the answer is about the object, and next otherwise.
	next  conf.Argument
	after string
	tag   string
}

// hopLocations returns the locations that ask the owner of a key, or its stand-in.
//
// The first request, the lookup, asks only for a cached object, and must be answered within the time of a disk's
// probe. So this pod detects a pod or a disk that hangs, and does not mistake a slow origin for a fault. If the
// object is not cached there, a second request makes the other pod fetch the object. This request may take as long as
// an origin may take.
//
// The time limit of the lookup also applies between two reads of a body. Some disks may take longer for one read,
// without having failed (see asksFirst). In that case, the lookup gets only the header, and the second request gets
// the body. A pod that has the object may then take the time of several probes for the second response. With a longer
// limit, a pod that hangs between the two requests would delay the client as long as a slow origin.
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

// asksFirst returns true if a pod asks for the header of an object before it asks for the object. It does so if hard
// disks may take longer for a read than a hop waits. It also does so with slices, because only the first slice of an
// object can be looked up.
func (s site) asksFirst() bool {
	for _, d := range s.Spec.Disks {
		if d.Media != v1alpha1.SSD && d.Media != v1alpha1.NVMe {
			return true
		}
	}
	return s.hasSlices()
}

// found returns the location for the second request to a pod, after the pod has answered the first request that it has
// the object. With slices, the pod has answered for the first slice only. The other slices may take as long as an
// origin, so the result is then the location fetch.
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

// afterMaps returns the maps for afterOwner and afterStandIn. If the lookup asks only for the header, an answer about
// the object contains a redirect. If the lookup asks for the whole object, a stored 400 counts as no answer.
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

// look returns the location that asks a pod for an object in its caches.
func (p hops) look(h hop) conf.Directive {
	ask := ""
	block := conf.Block{
		p.toPeer(p.lookupName() + "${" + h.pod[1:] + "}_" + diskVariable),
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
	// A server sends these statuses before it chooses a location: for a line that is too long, for an unexpected
	// protocol, or if it has no memory. A client must not get such an answer, least of all without its body.
	block = append(block, conf.D("error_page", append(conf.Literals("400", "414", "421", "500", "503", "505", "="),
		conf.Expression(h.after))...))
	block = append(block, p.overHop(h, ask)...)
	if p.hasMemoryTier() && h.look == onOwner {
		block = append(block, mirrored()...)
	}
	return location(h.look, block...)
}

// fetch returns a location that makes a pod fetch an object, or send the object that it has. patience is how long the
// pod may take for the header, and between two reads of the body.
//
// If the stand-in does not fetch the object either, the request has used many of the redirects that nginx allows. So
// the request goes to the location "waiting" for its disk, which fails over to the origin at once. This requires a pod
// with a disk.
func (p hops) fetch(h hop, name string, patience time.Duration) conf.Directive {
	last := h.look == onStandIn && len(p.disks) > 0
	if last {
		h.next = conf.Literal(waiting)
	}
	block := conf.Block{
		p.toPeer(p.peerName() + h.pod),
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

// overHop returns the directives that all requests to other pods have in common.
func (p hops) overHop(h hop, ask string) conf.Block {
	block := append(p.peerHeaders(ask),
		conf.D("error_page", conf.Literal("502"), conf.Literal("504"), conf.Literal("="), h.next),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_send_timeout", conf.Literal("1s")),
		conf.D("proxy_next_upstream", conf.Literal("error"), conf.Literal("timeout")),
		// With these buffers, a large body needs few reads and writes. The first buffer holds the headers of a stored
		// response and the headers that the other pod adds.
		conf.D("proxy_buffer_size", conf.Literal("24k")),
		conf.D("proxy_buffers", conf.Literal("8"), conf.Literal("64k")),
		conf.D("proxy_busy_buffers_size", conf.Literal("128k")),
		// nginx adds Accept-Ranges after a lookup in memory. Without this directive, the response would also contain the
		// other pod's header.
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

// peerHeaders returns the headers of requests to another pod. The other pod gets what the client sent, except the
// headers that only pods may send.
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
	block = append(block, d.tellsRoute()...)
	for _, name := range []string{
		stateHeader, diskHeader, sliceHeader, renewHeader, fillHeader, formerHeader, fallbackHeader,
	} {
		block = append(block, setHeader(name, conf.Literal("")))
	}
	return block
}
