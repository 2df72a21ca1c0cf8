package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// HeaderClass defines how nginx handles a header of a client's request: whether the header reaches the origin, and
// with which value.
type HeaderClass string

// The classes. Every header that [RequestHeaders] does not name is Passed.
const (
	// Set headers get a value from nginx, whatever the client sends.
	Set HeaderClass = "Set"
	// Removed headers do not reach the origin.
	Removed HeaderClass = "Removed"
	// Bypass headers reach the origin. No cache answers the request, and no cache stores the response.
	Bypass HeaderClass = "Bypass"
	// Revalidating headers are evaluated by nginx itself. They reach the origin only with a request that bypasses the
	// caches, or that no disk can serve because its disks have failed.
	Revalidating HeaderClass = "Revalidating"
	// Passed headers reach the origin. If the origin's response depends on such a header, the origin must name the
	// header in Vary.
	Passed HeaderClass = "Passed"
)

// RequestHeader is a header of a client's request.
type RequestHeader struct {
	Name  string
	Class HeaderClass
	// Note is the remark on the header in the reference documentation.
	Note string
}

// RequestHeaders are the request headers that matter to a cache. Some headers are known to make servers and
// frameworks use another host, scheme, path or method than the request's own. Such a header does not reach the origin
// unless it is part of the key. Otherwise one client could make the cache store a response to this header, and other
// clients would get that response.
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

// privateHeaders are the headers of requests between the parts of a CacheNode.
var privateHeaders = []string{
	schemeHeader, renewHeader, stateHeader, diskHeader, sliceHeader, fillHeader, formerHeader, fallbackHeader, askHeader,
}

// Headers that frameworks and proxies use as the host, scheme, path or method of a request.
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

// keeps returns true if the part is in the key.
func (s site) keeps(part v1alpha1.KeyPart) bool { return slices.Contains(s.Cache.Key, part) }

// clientScheme returns the scheme of the client's request. Requests between pods may use another scheme.
func (s site) clientScheme() conf.Argument {
	switch {
	case !s.isSharded():
		return conf.Expression("$scheme")
	case s.tellsScheme():
		return conf.Expression(schemeVariable)
	case s.Spec.Listen.TLS == nil:
		return conf.Literal("http")
	}
	return conf.Expression("$scheme") // forwarded leaves it out, because the key has no scheme
}

// hasOneHost returns true if all requests that are not refused have the same host.
func (s site) hasOneHost() bool {
	return len(s.Hosts) == 1 && s.Hosts[0][0] != '*'
}

const (
	// credentialsVariable and bodyVariable are not empty for requests that no cache may answer or store.
	credentialsVariable = "$has_credentials"
	bodyVariable        = "$has_body"
	// partialVariable is not empty for a response that is only a part of an object although no range was requested. It
	// is also not empty for a response that is no part, but has a Content-Range.
	partialVariable = "$is_partial"
	// variesVariable is not empty for responses that fit only one request. There are three cases. First, Vary contains a
	// star, which nginx itself recognizes only if the star stands alone. Second, Vary names X-Forwarded-For: nginx would
	// compare the client's own header, but the origin gets another value. Third, Vary has more than 128 bytes, and nginx
	// never stores such a response. Vary may name other headers that nginx sets, because these are in the key or
	// constant.
	variesVariable = "$varies"
	// keptArguments are the arguments that reach the origin.
	keptArguments = "$kept_args"
	// encodedMark separates a path that contains a question mark from the arguments.
	encodedMark = cachekey.URIMark
)

// core is the part of the configuration with the maps that classify requests. The maps define whether a cache may
// answer a request, which key the request has, and where it goes.
type core struct{ site }

// requestMaps returns the maps by which nginx decides whether to bypass a cache, and the maps for the key. For the
// decision, "" and "0" mean no.
func (k core) requestMaps() conf.Block {
	block := conf.Block{
		conf.Map("$http_authorization", credentialsVariable,
			conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Literal("1"))),
		conf.Map("$request_method $http_content_length $http_transfer_encoding", bodyVariable,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?:GET|HEAD) 0* $"), conf.Literal("")),
			conf.Row(conf.Expression("~^(?:GET|HEAD) "), conf.Literal("1"))),
		conf.Map("$upstream_http_vary", variesVariable,
			conf.D("volatile"), // for each slice
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~*(?:^|,)\s*(?:[*]|X-Forwarded-For\s*(?:,|$))`), conf.Literal("1")),
			conf.Row(conf.Expression("~^.{129}"), conf.Literal("1"))),
	}
	asked := conf.Expression("")
	if k.hasSlices() {
		asked = askedRange
	}
	block = append(block, conf.Map(
		// $status is the status of the response to the client, which may be a part of a whole object.
		asked+" $upstream_status/$upstream_http_content_range", partialVariable,
		conf.D("volatile"), // for each slice
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^ (?:.*[ ,])?206/"), conf.Literal("1")),
		conf.Row(conf.Expression("~ (?:206|416)/"), conf.Literal("")),
		conf.Row(conf.Expression("~ [0-9]+/."), conf.Literal("1"))))
	block = slices.Concat(block, k.bypassMaps(), conf.Block{k.passes(), k.here()}, k.queryMaps())
	if !k.keeps(v1alpha1.KeyURI) {
		return block
	}
	counted := conf.Argument(conf.Literal(""))
	if k.keeps(v1alpha1.KeyArgs) {
		counted = conf.Expression("$args")
		if k.Cache.Query != nil {
			counted = conf.Expression(countedArgs)
		}
		// The path is decoded, so it may contain a question mark. Then a space separates the path from the arguments,
		// because no argument contains a space.
		block = append(block, conf.Map("$uri", encodedMark,
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~[?]"), conf.Literal(" "))))
	}
	return append(block, conf.Map(passVariable, keptArguments,
		conf.Row(conf.Literal("1"), conf.Expression("$args")), conf.D("default", counted)))
}

// normalized makes nginx send the path that is in the key instead of the path that the client wrote. After "set
// $args", nginx builds the request line from the normalized path. Arguments that are not in the key reach the origin
// only with requests that bypass the caches.
func (s site) normalized() conf.Block {
	if !s.keeps(v1alpha1.KeyURI) {
		return nil
	}
	return conf.Block{set("$args", conf.Expression(keptArguments))}
}
