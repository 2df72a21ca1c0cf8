package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// peers is the part of the configuration with the servers for other pods.
type peers struct{ door }

const (
	// askCopy and askFill are values of askHeader. With askCopy, the asking pod copies the object to its memory. With
	// askFill, it copies the object to its disk, because the key has moved to it. If the value is the name of a location,
	// the asking pod requests only the header of the object.
	askCopy = "copy"
	askFill = "fill"

	// askVariable contains the location for the value of askHeader.
	askVariable = "$asked"
	lookingUp   = "@looking_up"
	lookingAt   = "@looking_at"
	copying     = "@copying"
	filling     = "@filling"
	// absentHere is the location for a disk that cannot be read.
	absentHere = "@absent"

	// answered is 1 for lookups that nginx reports to the agent. Only lookups that found something are reported.
	answered = "$is_answered"
	// fillSeconds is the number of seconds for which an object is fresh on the disk to which it is copied.
	fillSeconds = "$fill_seconds"

	// podsZone counts the requests in progress of each pod.
	podsZone = "asking_pods"
)

// filledFor is the number of seconds for which a filled object is fresh. nginx does not know how long the object
// would still have been fresh in the pod from which it came. So the pod soon asks the origin whether the object is
// still valid.
const filledFor = "10"

// servers returns the servers for the other pods of the CacheNode. They never ask another pod themselves, so requests
// cannot go in circles while pods have different plans.
func (p peers) servers() conf.Block {
	if !p.isSharded() {
		return nil
	}
	return append(p.lookupMaps(), p.lookupServer(), p.fetchServer())
}

// podsZone returns the zone that counts the requests of each pod.
func (n node) podsZone() conf.Block {
	if !n.isSharded() {
		return nil
	}
	return conf.Block{
		conf.D("limit_conn_zone", conf.Expression("$binary_remote_addr"), conf.Literal("zone="+podsZone+":1m")),
	}
}

// podLimit limits the requests that one address may have in progress in both servers for pods (limit_conn). It leaves
// half of the connections to clients. The asking pod has the same spec, so it has as many connections as this pod. Each
// request of the asking pod takes two of its connections: the connection of its client or of its own gateway, and the
// connection to this pod. So the asking pod reaches the limit only if the requests of its clients share connections
// (HTTP/2 and HTTP/3). Beyond the limit, the asking pod behaves as if this pod did not answer. With routing.tls Mutual,
// a client without a certificate is rejected before it reaches this limit.
func (p peers) podLimit() conf.Directive {
	const most = 65535 // nginx accepts no larger number
	workers := max(effective.Workers(p.Spec.IO, p.Facts.Cores), 1)
	half := int64(workers) * int64(effective.Connections(p.Spec)) / 2
	return conf.D("limit_conn", conf.Literal(podsZone), conf.Int(min(half, most)))
}

// listenToPeers returns the beginning of a server for pods.
func (p peers) listenToPeers(port int) conf.Block {
	listen := []conf.Argument{conf.Int(port)}
	if p.peersTLS() {
		listen = append(listen, conf.Literal("ssl"))
	}
	block := conf.Block{
		conf.D("listen", listen...),
		conf.D("server_name", conf.Literal("_")),
		conf.D("keepalive_requests", conf.Literal("100000")),
		conf.D("keepalive_timeout", conf.Literal("75s")),          // the asking pod closes an idle connection first
		conf.D("client_header_timeout", conf.Literal(ownTimeout)), // for the handshake too
		conf.D("client_body_timeout", conf.Literal(ownTimeout)),
		conf.D("large_client_header_buffers", conf.Literal("4"), conf.Literal(ownHeaders)),
		conf.D("if_modified_since", conf.Literal("before")),
		refusesMalformed(),
		p.podLimit(),
	}
	block = append(block, p.peerServerTLS()...)
	return slices.Concat(block, p.normalized(), p.scheme(schemeInRequest))
}

// peerServerTLS returns the TLS directives of the servers for pods: the certificate that this pod presents, and the
// certificates that it requires.
func (p peers) peerServerTLS() conf.Block {
	if !p.peersTLS() {
		return nil
	}
	hash := p.Facts.Fleet.Certificate
	return conf.Block{
		conf.D("ssl_certificate", conf.Literal(layout.PeerCertificate(hash))),
		conf.D("ssl_certificate_key", conf.Literal(layout.PeerKey(hash))),
		conf.D("ssl_client_certificate", conf.Literal(layout.PeerAuthority(hash))),
		conf.D("ssl_verify_client", conf.OnOff(true)),
		conf.D("ssl_protocols", conf.Literal("TLSv1.3")),
		conf.D("ssl_session_cache", conf.Literal("shared:pods:1m")),
		conf.D("ssl_session_timeout", conf.Literal("1h")),
	}
}

// peerClientTLS returns the TLS directives for requests to other pods: the certificate that this pod presents, and the
// certificates that it requires.
func (n node) peerClientTLS() conf.Block {
	if !n.peersTLS() {
		return nil
	}
	hash := n.Facts.Fleet.Certificate
	return conf.Block{
		conf.D("proxy_ssl_certificate", conf.Literal(layout.PeerCertificate(hash))),
		conf.D("proxy_ssl_certificate_key", conf.Literal(layout.PeerKey(hash))),
		conf.D("proxy_ssl_trusted_certificate", conf.Literal(layout.PeerAuthority(hash))),
		conf.D("proxy_ssl_verify", conf.OnOff(true)),
		conf.D("proxy_ssl_name", conf.Literal(naming.PeerName(n.Namespace, n.Name))),
		conf.D("proxy_ssl_server_name", conf.OnOff(true)),
		conf.D("proxy_ssl_protocols", conf.Literal("TLSv1.3")),
	}
}

// lookupMaps returns the maps for lookups by other pods.
func (p peers) lookupMaps() conf.Block {
	if len(p.disks) == 0 {
		return nil
	}
	asked := conf.Block{
		conf.D("default", conf.Literal(lookingUp)), conf.Row(conf.Expression("~^@"), conf.Literal(lookingAt)),
		conf.Row(conf.Literal(askFill), conf.Literal(filling)),
	}
	if p.hasMemoryTier() {
		asked = append(asked, conf.Row(conf.Literal(askCopy), conf.Literal(copying)))
	}
	found := conf.Map("$status", answered,
		conf.D("default", conf.Literal("1")), conf.Row(conf.Literal(absent), conf.Literal("0")))
	if percent := p.sampling(); percent > 0 && percent < 100 {
		found = conf.Map(sampledVariable+":$status", answered,
			conf.D("default", conf.Literal("0")), conf.Row(conf.Expression("~^1:(?!"+absent+")"), conf.Literal("1")))
	}
	return conf.Block{
		conf.Map(askInRequest, askVariable, asked...), found, ifExpired(absentOrOld, stateOld), secondsOfFills(),
	}
}

// secondsOfFills returns the map for fillSeconds. If the origin has just sent the object, the value is "": the
// object's own headers then define the time.
func secondsOfFills() conf.Directive {
	return conf.Map("$upstream_cache_status", fillSeconds,
		conf.D("default", conf.Literal("0")), conf.Row(conf.Literal("EXPIRED"), conf.Expression(ownLifetime)),
		conf.Row(conf.Expression("~^(?:HIT|REVALIDATED|STALE)$"), conf.Literal(filledFor)))
}

// lookupServer returns the server that answers with fresh objects from the pod's caches, and otherwise with the status
// absent or old. The server never waits for an origin. So the asking pod can distinguish a pod that hangs from a pod
// that does not have the object.
func (p peers) lookupServer() conf.Directive {
	block := slices.Concat(p.listenToPeers(p.lookupPort()), silent(), p.unknownRoute(absent))
	if len(p.disks) == 0 { // other pods ask the stand-in instead
		return conf.B("server", nil, append(block, conf.D("return", conf.Literal("502")))...)
	}
	block = append(append(block, p.hidden()...),
		passDate(),
		conf.D("proxy_http_version", conf.Literal("1.1")),
		setHeader("Connection", conf.Literal("")),
		setHeader(stateHeader, conf.Literal(stateAbsent)),
		dispatch(conf.Expression(askVariable)),
		isAbsent(absentHere))
	block = append(block, p.lookUp(lookingUp), p.lookAt(lookingAt))
	block = append(block, location(filling, slices.Concat(
		p.onlyIfCached(p.filledKey(p.key())), p.asStored(), conf.Block{
			setHeader("Connection", conf.Literal("")),
			setHeader(stateHeader, p.unlessSliced(absentOrOld)),
			addHeader("X-Accel-Expires", conf.Expression(fillSeconds)),
		})...))
	if !p.hasSlices() {
		block = append(block, location(rangeOnDisk,
			append(p.logsOfLookups(), conf.D("return", conf.Literal("416")))...))
	}
	if p.hasMemoryTier() {
		block = append(block, tier(p).tierSource(copying)...)
	}
	return conf.B("server", nil, block...)
}

// lookUp returns the location that answers with an object. With slices, a later slice could be absent after the
// header was sent, so the location always answers absent.
func (p peers) lookUp(name string) conf.Directive {
	if p.hasSlices() {
		return isAbsent(name)
	}
	return location(name, slices.Concat(p.onlyIfCached(p.key()),
		conf.Block{noSuchRange()}, p.logsOfLookups(),
		p.answerHeaders(conf.Expression("$upstream_cache_status"), conf.Expression(diskVariable), ""))...)
}

// lookAt returns the location that answers with the header of an object. With slices, it looks up the first slice that
// the request needs, so a disk that hangs gives no answer. Such a lookup counts as a use of that slice only. So if
// minUses is more than 1, the location always answers absent instead.
func (p peers) lookAt(name string) conf.Directive {
	if !p.hasSlices() {
		return location(name, append(p.onlyIfCached(p.key()), headerAlone()...)...)
	}
	if p.minUses() > 1 {
		return isAbsent(name)
	}
	return location(name,
		slices.Concat(conf.Block{p.inSlices()}, p.onlyIfCached(p.storedKey(true)), headerAlone())...)
}

// isAbsent returns a location that always answers absent.
func isAbsent(name string) conf.Directive {
	return location(name, conf.D("return", conf.Literal(absent)))
}

// onlyIfCached makes a location answer with a fresh copy from a disk, as it is stored. The gateway answers if the copy
// is absent or has expired. If the gateway gave no answer, nginx would serve an expired copy for as long as
// stale-if-error allows.
func (p peers) onlyIfCached(key conf.Expression) conf.Block {
	return slices.Concat(
		conf.Block{conf.D("proxy_pass", p.entry.url())}, p.cacheOf(diskVariable, key),
		conf.Block{
			conf.D("proxy_force_ranges", conf.OnOff(true)),
			conf.D("error_page", conf.Literal("500"), conf.Literal("="), conf.Literal(absentHere)),
		}, p.lookupUses(), p.diskIO(diskVariable))
}

// lookupUses makes a lookup count as a use. With the default value 1 of proxy_cache_min_uses, nginx forgets a key that
// it does not find. So it also forgets how often the key was requested.
func (d door) lookupUses() conf.Block {
	if uses := d.minUses(); uses > 1 {
		return conf.Block{conf.D("proxy_cache_min_uses", conf.Int(uses))}
	}
	return nil
}

// headerAlone returns the directives that answer a lookup for the header only. The asking pod sends such a lookup
// before it requests the object. Whatever the status, the answer is a redirect to the location that the asking pod has
// named. A client that got the answer itself would wait for a body that never comes. The asking pod's nginx would pass
// some headers on with the redirect, even with proxy_hide_header. So this pod leaves them out.
func headerAlone() conf.Block {
	block := conf.Block{
		addHeader("X-Accel-Redirect", conf.Expression(askInRequest)),
	}
	names := append(ownNames(), "Cache-Control", "Set-Cookie")
	for _, h := range copiedHeaders {
		names = append(names, h.name)
	}
	return append(block, hides(names...)...)
}

// logsOfLookups returns the directive that reports lookups to the agent. Only lookups that found an object are
// reported.
func (p peers) logsOfLookups() conf.Block {
	if p.sampling() == 0 {
		return nil
	}
	return conf.Block{conf.D("access_log",
		toAgent(agentapi.TagCached), conf.Literal("agent"), conf.Expression("if="+answered))}
}

// fetchServer returns the server that answers as if a client had sent the request to this pod, but without the memory
// tier. Beyond podLimit, the server closes the connection, because the asking pod could not distinguish an error from
// an answer about the object.
func (p peers) fetchServer() conf.Directive {
	block := append(p.listenToPeers(p.peerPort()), p.unknownRoute("444")...)
	if len(p.disks) == 0 {
		return conf.B("server", nil, append(block, conf.D("return", conf.Literal("502")))...)
	}
	block = append(block, conf.D("limit_conn_status", conf.Literal("444")))
	block = slices.Concat(block, p.toOrigin(), p.hidden(originHeader, sharedHeader))
	// The asking pod needs both headers: the first if it fills from this pod, the second if it passes the response on to
	// a client.
	block = append(block, passed(conf.Literals("X-Accel-Expires", "X-Accel-Buffering"))...)
	block = append(block, p.atOnce()...)
	block = append(block, dispatch(conf.Expression(hereVariable), falls(conf.Literal(""))))
	if p.backend.asksAgain() { // see unready
		block = append(block, location(broken, conf.D("return", conf.Literal("444"))))
	}
	return conf.B("server", nil, append(block, store(p).hereLocations(nil)...)...)
}
