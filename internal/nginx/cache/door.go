package cache

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// door is a server that receives requests for a site, from clients or from other pods. It does not trust what clients
// claim about themselves. It trusts what pods report about a client.
type door struct {
	site
	toPeers bool
}

// throughGateway passes a request on to the gateway under a URL, and gives the client the origin's own Cache-Control.
// If the URL has no path, nginx sends the path as the client wrote it.
func (d door) throughGateway(url conf.Expression) conf.Block {
	block := conf.Block{
		conf.D("proxy_pass", url),
		conf.D("proxy_next_upstream", conf.Literal("off")), // the gateway tries again
		conf.D("proxy_read_timeout", conf.Time(d.LongestFetch())),
	}
	return append(block, d.ownControl()...)
}

// asksNothing clears the variables that describe the asking cache, in a location that has no cache. These variables
// must not be set in the server: a mirror request also runs the directives of the server, and shares all variables
// with the client's request.
func (s site) asksNothing() conf.Block {
	return append(conf.Block{
		set(gatewayDisk, conf.Literal("")),
		set(fromVariable, conf.Literal("")),
	}, s.notSliced("")...)
}

// ownControl gives clients the origin's own Cache-Control instead of the Cache-Control that is stored.
func (d door) ownControl() conf.Block {
	if d.toPeers { // the asking pod does that, or stores the response with the same headers as this pod
		return d.hidden(sharedHeader)
	}
	block := d.hidden("Cache-Control", originHeader, sharedHeader)
	if d.Headers.Response.Names("Cache-Control") {
		return block
	}
	return append(block,
		addHeader("Cache-Control", conf.Expression(clientVariable)))
}

// hidden hides response headers from clients: headers of the origin that have the same name as a header that
// CacheNode sets, and the headers in more. Other pods see all headers except the headers in more and the headers with
// CacheNode's own names. The gateway also hides CacheNode's own names, but stored objects may contain them.
func (d door) hidden(more ...string) conf.Block {
	var block conf.Block
	if !d.toPeers {
		for _, h := range d.headers(conf.Literal(""), conf.Literal("")) {
			block = append(block, conf.D("proxy_hide_header", h.Args[0]))
		}
		for _, name := range d.Headers.Response.Remove {
			more = append(more, string(name))
		}
		more = append(more, effective.TagHeaders(d.Spec)...)
	}
	return append(block, hides(append(more, ownNames()...)...)...)
}

// ownNames returns the names of the response headers that only parts of a CacheNode may set. If an origin sends such
// a header, it is hidden.
func ownNames() []string { return append([]string{statusHeader, placeHeader}, privateHeaders...) }

// hides makes a location remove headers from responses. The list replaces the list of the server.
func hides(names ...string) (block conf.Block) {
	for _, name := range names {
		block = append(block, conf.D("proxy_hide_header", conf.Literal(name)))
	}
	return block
}

func (s site) statusHeaders() bool { return ptr.Deref(s.Cache.StatusHeaders, true) }

// headers returns the response headers that a location of this pod adds to its answers.
func (d door) headers(status, disk conf.Argument) conf.Block {
	return d.answerHeaders(status, disk, noHop)
}

// answerHeaders returns the response headers that a location adds: headers that show how the response came about, and
// the headers of the spec. hop is the value of X-Cache-Hop.
func (d door) answerHeaders(status, disk conf.Argument, hop string) conf.Block {
	if d.toPeers {
		return conf.Block{addHeader(statusHeader, status), addHeader(placeHeader, disk)}
	}
	var block conf.Block
	if d.statusHeaders() {
		block = conf.Block{addHeader("X-Cache", status), addHeader("X-Cache-Disk", disk)}
	}
	if d.statusHeaders() && d.isSharded() {
		block = append(block, addHeader("X-Cache-Hop", conf.Literal(hop)))
	}
	if d.Cache.NodeHeader {
		block = append(block, addHeader("X-Cache-Node", conf.Expression("$hostname")))
	}
	if d.speaksHTTP3() {
		block = append(block, addHeader("Alt-Svc", conf.Expression(altSvc)))
	}
	for _, h := range d.Headers.Response.Set {
		block = append(block, addHeader(string(h.Name), conf.Literal(h.Value)))
	}
	return block
}

// forwardedFor returns the X-Forwarded-For that the origin gets.
func (d door) forwardedFor() conf.Expression {
	if d.toPeers { // the other pod has added the client's address
		return "$http_x_forwarded_for"
	}
	if d.addressSource() == v1alpha1.AddressXForwardedFor {
		return forwardedFor
	}
	return "$proxy_add_x_forwarded_for"
}

// toOrigin returns the directives that every request of a client needs on its way to the origin, cached or not.
func (d door) toOrigin() conf.Block {
	block := append(conf.Block{conf.D("proxy_http_version", conf.Literal("1.1"))}, d.forwarded()...)
	return append(block, d.backend.reachOrigin()...)
}

// forwarded returns the directives that set and remove headers of requests to the origin.
func (d door) forwarded() conf.Block {
	none := conf.Argument(conf.Literal(""))
	host, forwardedHost := conf.Argument(conf.Expression("$host")), conf.Argument(conf.Expression("$host"))
	proto := d.clientScheme()
	if d.ofRoutes {
		host = conf.Expression(sentHost)
	}
	if d.Origin.HostHeader != nil {
		host = conf.Literal(*d.Origin.HostHeader)
	}
	if !d.keeps(v1alpha1.KeyHost) && !d.hasOneHost() {
		forwardedHost = none
	}
	if !d.keeps(v1alpha1.KeyScheme) && d.Spec.Listen.TLS != nil {
		proto = none
	}
	state, from := conf.Argument(conf.Expression(stateVariable)), none
	if d.fillsFromPods() {
		from = conf.Expression(fillVariable)
	}
	former := none
	if d.fillsFromDisks() {
		former = conf.Expression(formerVariable)
	}
	if d.renewsInBackground() {
		state, former = conf.Expression(askedState), conf.Expression(askedFormer)
	}
	block := conf.Block{
		// This makes room for the headers below.
		conf.D("proxy_headers_hash_max_size", conf.Literal("2048")),
		conf.D("proxy_headers_hash_bucket_size", conf.Literal("128")),
		setHeader("Connection", none),
		setHeader("Host", host),
		setHeader("X-Forwarded-For", d.forwardedFor()),
		setHeader("X-Forwarded-Host", forwardedHost),
		setHeader("X-Forwarded-Proto", proto),
		// The next headers are for the gateway; they are empty in a location without a cache.
		setHeader(stateHeader, state),
		setHeader(diskHeader, conf.Expression(gatewayDisk)),
		setHeader(fillHeader, from), setHeader(formerHeader, former),
		setHeader(fallbackHeader, conf.Expression(fallsBack)),
	}
	block = append(block, d.tellsRoute()...)
	if d.hasSlices() {
		block = append(block,
			setHeader("Range", conf.Expression(askedRange)), setHeader(sliceHeader, conf.Expression(positionVariable)))
		for _, c := range conditions {
			block = append(block, setHeader(c.name, "$asked_"+c.variable))
		}
	} else {
		block = append(block, setHeader(sliceHeader, none))
	}
	changes := d.Headers.Request
	for _, name := range slices.Concat(overridesHost, overridesScheme, overridesPath, overridesMethod, overridesServer,
		[]string{"Proxy-Authorization", "Proxy-Connection", schemeHeader, renewHeader, askHeader}) {
		if !changes.Names(name) {
			block = append(block, setHeader(name, none))
		}
	}
	for _, h := range changes.Set {
		block = append(block, setHeader(string(h.Name), conf.Literal(h.Value)))
	}
	for _, name := range changes.Remove {
		block = append(block, setHeader(string(name), none))
	}
	return block
}
