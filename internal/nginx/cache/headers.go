package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// HeaderClass says how nginx handles a header of a client's request: whether the header reaches the origin, and with
// which value.
type HeaderClass string

// The classes. Every header that [RequestHeaders] does not name is Passed.
const (
	// Set headers get a value from nginx, whatever the client says.
	Set HeaderClass = "Set"
	// Removed headers do not reach the origin.
	Removed HeaderClass = "Removed"
	// Bypass headers reach the origin; the response is neither stored nor answered from a cache.
	Bypass HeaderClass = "Bypass"
	// Revalidating headers are answered by nginx. They reach the origin only with a request that no disk can serve.
	Revalidating HeaderClass = "Revalidating"
	// Passed headers reach the origin. If its response depends on one, the origin must name the header in Vary.
	Passed HeaderClass = "Passed"
)

// RequestHeader is a header of a client's request.
type RequestHeader struct {
	Name  string
	Class HeaderClass
	// Note is the remark on the header in the reference documentation.
	Note string
}

// RequestHeaders are the headers that matter to a cache. A header does not reach the origin if servers and frameworks
// are known to take it for another host, scheme, path or method than the request's own, unless it is part of the key.
// Otherwise one client could have a response stored that others are then served.
var RequestHeaders = slices.Concat(
	[]RequestHeader{
		{"Host", Set, "`origin.hostHeader`, or the name that the client asked for, " +
			"which then is part of the key or the only one in `hosts`"},
		{"X-Forwarded-Host", Set, "the name that the client asked for; " +
			"removed where the key has no Host and `hosts` lists more than one name or none"},
		{"X-Forwarded-Proto", Set, "http or https; removed where the key has no Scheme and `listen.tls` is set"},
		{"X-Forwarded-For", Set, "the client's own value, a comma and the address that the request came from: " +
			"the client's, or the load balancer's if `listen.clientAddress.source` is XForwardedFor"},
		{"Connection", Set, "nginx's own"},
		{"Authorization", Bypass, "a response to credentials is for their sender alone (RFC 9111, section 3.5)"},
		{"Content-Length", Bypass, "a body of GET or HEAD, which is not part of the key; a length of 0 is no body"},
		{"Transfer-Encoding", Bypass, "a body of GET or HEAD"},
	},
	headers(Revalidating, "conditions on the client's own copy, or parts of it",
		"If-Modified-Since", "If-Unmodified-Since", "If-None-Match", "If-Match", "If-Range", "Range"),
	headers(Removed, "between two hops",
		"Upgrade", "TE", "Keep-Alive", "Expect", "Proxy-Authorization", "Proxy-Connection"),
	headers(Removed, "another host", overridesHost...),
	headers(Removed, "another scheme or port", overridesScheme...),
	headers(Removed, "another path", overridesPath...),
	headers(Removed, "another method", overridesMethod...),
	headers(Removed, "for scripts and servers behind the origin's own proxy", overridesServer...),
	headers(Removed, "CacheNode's own", privateHeaders...),
	headers(Passed, "for example",
		"Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Origin", "Referer", "User-Agent", "X-Real-IP",
		"X-Request-Id"),
)

// privateHeaders are those of requests between the parts of a CacheNode.
var privateHeaders = []string{
	schemeHeader, renewHeader, stateHeader, diskHeader, sliceHeader, fillHeader, formerHeader, fallbackHeader, askHeader,
}

// Headers that frameworks and proxies take for the host, scheme, path or method of a request.
var (
	overridesHost = []string{
		"Forwarded", "X-Forwarded-Server", "X-Host", "X-HTTP-Host-Override", "X-Original-Host", "X-Forwarded-Hostname",
		"X-Backend-Host", "X-Proxy-Host", "X-Envoy-Original-Host",
	}
	overridesScheme = []string{
		"X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Protocol", "X-Forwarded-Ssl", "X-Url-Scheme", "X-Scheme",
		"X-Original-Scheme", "Front-End-Https", "Https", "X-Https", "X-Forwarded-Https", "X-Client-Scheme",
		"X-Client-Proto", "CF-Visitor", "CloudFront-Forwarded-Proto", "X-Edge-Proto", "X-Proxied-Https", "WL-Proxy-SSL",
		"X-ARR-SSL",
	}
	overridesPath = []string{
		"X-Original-URL", "X-Original-URI", "X-Original-Path", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-Forwarded-Path",
		"X-Forwarded-Uri", "X-Script-Name", "X-Envoy-Original-Path", "X-Request-Uri", "X-Original-Request-Uri",
		"X-Forwarded-Context", "X-Forwarded-Pathbase", "X-Invoke-Path", "X-Middleware-Rewrite", "X-Forwarded-Base",
		"X-Request-Base", "X-Forwarded-Script-Name", "X-Traversal-Path", "X-HTTP-Path-Override", "X-Override-URL",
		"X-Forwarded-Request-Uri", "X-Matched-Path", "X-Invoke-Status", "X-Invoke-Error", "X-Invoke-Output",
	}
	overridesServer = []string{"Proxy", "X-Sendfile-Type", "X-Accel-Mapping"}
	overridesMethod = []string{
		"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method",
	}
)

func headers(class HeaderClass, note string, names ...string) []RequestHeader {
	list := make([]RequestHeader, len(names))
	for i, name := range names {
		list[i] = RequestHeader{Name: name, Class: class, Note: note}
	}
	return list
}

// keeps is true if the part is in the key.
func (r renderer) keeps(part v1alpha1.KeyPart) bool { return slices.Contains(r.Spec.Cache.Key, part) }

// clientScheme is the scheme of the client's request. Pods talk to each other over another one.
func (r renderer) clientScheme() conf.Argument {
	switch {
	case !r.isSharded():
		return conf.Expression("$scheme")
	case r.tellsScheme():
		return conf.Expression(schemeVariable)
	case r.Spec.Listen.TLS == nil:
		return conf.Literal("http")
	}
	return conf.Expression("$scheme") // which forwarded leaves out, as the key has none
}

// forwarded are the directives that set and remove headers of requests to the origin.
func (r renderer) forwarded() conf.Block {
	set := func(name string, value conf.Argument) conf.Directive {
		return conf.D("proxy_set_header", conf.Literal(name), value)
	}
	none := conf.Argument(conf.Literal(""))
	host, forwardedHost := conf.Argument(conf.Expression("$host")), conf.Argument(conf.Expression("$host"))
	proto := r.clientScheme()
	if r.Spec.Origin.HostHeader != nil {
		host = conf.Literal(*r.Spec.Origin.HostHeader)
	}
	if !r.keeps(v1alpha1.KeyHost) && !r.hasOneHost() {
		forwardedHost = none
	}
	if !r.keeps(v1alpha1.KeyScheme) && r.Spec.Listen.TLS != nil {
		proto = none
	}
	state, from := conf.Argument(conf.Expression(stateVariable)), none
	if r.fillsFromPods() {
		from = conf.Expression(fillVariable)
	}
	former := none
	if r.fillsFromDisks() {
		former = conf.Expression(formerVariable)
	}
	if r.renewsInBackground() {
		state, former = conf.Expression(askedState), conf.Expression(askedFormer)
	}
	block := conf.Block{
		// Room for the headers below.
		conf.D("proxy_headers_hash_max_size", conf.Literal("2048")),
		conf.D("proxy_headers_hash_bucket_size", conf.Literal("128")),
		set("Connection", none),
		set("Host", host),
		set("X-Forwarded-For", r.forwardedFor()),
		set("X-Forwarded-Host", forwardedHost),
		set("X-Forwarded-Proto", proto),
		// For the gateway; empty in a location without a cache.
		set(stateHeader, state),
		set(diskHeader, conf.Expression(gatewayDisk)),
		set(fillHeader, from), set(formerHeader, former),
		set(fallbackHeader, conf.Expression(fallsBack)),
	}
	if r.hasSlices() {
		block = append(block,
			set("Range", conf.Expression(askedRange)), set(sliceHeader, conf.Expression(positionVariable)))
		for _, c := range conditions {
			block = append(block, set(c.name, conf.Expression("$asked_"+c.variable)))
		}
	} else {
		block = append(block, set(sliceHeader, none))
	}
	changes := r.Spec.Headers.Request
	for _, name := range slices.Concat(overridesHost, overridesScheme, overridesPath, overridesMethod, overridesServer,
		[]string{"Proxy-Authorization", "Proxy-Connection", schemeHeader, renewHeader, askHeader}) {
		if !changes.Names(name) {
			block = append(block, set(name, none))
		}
	}
	for _, h := range changes.Set {
		block = append(block, set(string(h.Name), conf.Literal(h.Value)))
	}
	for _, name := range changes.Remove {
		block = append(block, set(string(name), none))
	}
	return block
}

// hasOneHost is true if all requests that are not refused have the same host.
func (r renderer) hasOneHost() bool {
	return len(r.Spec.Hosts) == 1 && r.Spec.Hosts[0][0] != '*'
}

const (
	// credentialsVariable and bodyVariable are not empty for requests that no cache may answer or store.
	credentialsVariable = "$has_credentials"
	bodyVariable        = "$has_body"
	// partialVariable is not empty for a response that is a part of an object though nobody asked for it, or says that it
	// is one.
	partialVariable = "$is_partial"
	// variesVariable is not empty for responses that fit one request only. Vary has a star, which nginx finds only if it
	// stands alone, or it names X-Forwarded-For: nginx compares the client's own header, and the origin gets another one.
	// nginx stores none with a Vary of more than 128 bytes. Other headers that nginx sets are in the key or constant.
	variesVariable = "$varies"
	// keptArguments are the arguments that reach the origin.
	keptArguments = "$kept_args"
	// encodedMark separates a path that contains a question mark from the arguments.
	encodedMark = cachekey.URIMark
)

// requestMaps are the maps by which nginx decides whether to bypass a cache, for which it takes "" and "0" for no, and
// those of the key.
func (r renderer) requestMaps() conf.Block {
	block := conf.Block{
		conf.B("map", []conf.Argument{conf.Expression("$http_authorization"), conf.Expression(credentialsVariable)},
			conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Literal("1"))),
		conf.B("map",
			[]conf.Argument{
				conf.Expression("$request_method $http_content_length $http_transfer_encoding"),
				conf.Expression(bodyVariable),
			},
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?:GET|HEAD) 0* $"), conf.Literal("")),
			conf.Row(conf.Expression("~^(?:GET|HEAD) "), conf.Literal("1"))),
		conf.B("map", []conf.Argument{conf.Expression("$upstream_http_vary"), conf.Expression(variesVariable)},
			conf.D("volatile"), // for each slice
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~*(?:^|,)\s*(?:[*]|X-Forwarded-For\s*(?:,|$))`), conf.Literal("1")),
			conf.Row(conf.Expression("~^.{129}"), conf.Literal("1"))),
	}
	asked := conf.Expression("")
	if r.hasSlices() {
		asked = askedRange
	}
	block = append(block, conf.B("map",
		[]conf.Argument{
			// $status is that of the response to the client, which may be a part of a whole one.
			asked + " $upstream_status/$upstream_http_content_range", conf.Expression(partialVariable),
		},
		conf.D("volatile"), // for each slice
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^ (?:.*[ ,])?206/"), conf.Literal("1")),
		conf.Row(conf.Expression("~ (?:206|416)/"), conf.Literal("")),
		conf.Row(conf.Expression("~ [0-9]+/."), conf.Literal("1"))))
	block = slices.Concat(block, r.bypassMaps(), conf.Block{r.passes(), r.here()}, r.queryMaps())
	if !r.keeps(v1alpha1.KeyURI) {
		return block
	}
	counted := conf.Argument(conf.Literal(""))
	if r.keeps(v1alpha1.KeyArgs) {
		counted = conf.Expression("$args")
		if r.Spec.Cache.Query != nil {
			counted = conf.Expression(countedArgs)
		}
		// The path is decoded, so it may contain a question mark. No argument contains a space.
		block = append(block, conf.B("map", []conf.Argument{conf.Expression("$uri"), conf.Expression(encodedMark)},
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~[?]"), conf.Literal(" "))))
	}
	return append(block, conf.B("map", []conf.Argument{conf.Expression(passVariable), conf.Expression(keptArguments)},
		conf.Row(conf.Literal("1"), conf.Expression("$args")), conf.D("default", counted)))
}

// normalized makes nginx send the path that is in the key instead of the one that the client wrote: after "set $args",
// nginx builds the request line from the normalized path. Arguments that are not in the key reach the origin only with
// requests past the caches.
func (r renderer) normalized() conf.Block {
	if !r.keeps(v1alpha1.KeyURI) {
		return nil
	}
	return conf.Block{conf.D("set", conf.Expression("$args"), conf.Expression(keptArguments))}
}
