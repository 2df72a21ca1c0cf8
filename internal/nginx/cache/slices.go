package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// whole is the location for objects that cannot be fetched in slices.
	whole = "@whole"
	// uncachedAgain is the location uncached for requests that the gateway has redirected before.
	uncachedAgain = "@uncached_again"
	// unsliced is the location in which the memory tier finds them, stored the one in which requests do while the origin
	// fails.
	unsliced = "@unsliced"
	stored   = "@stored"
	// slicedVariable says how a location asks the origin: "yes" in slices, "no" for the whole object, "" as the client
	// does.
	slicedVariable = "$sliced"
	// sliceVariable is nginx's variable for the range of the slice that a request is about.
	sliceVariable = "$slice_range"
	// firstSlice is the slice with which the response to a client begins.
	firstSlice = "$first_slice"
	// positionVariable is "first" for the slice with which a response begins, "next" for the ones after it.
	// slicesVariable is its value in a location with slices.
	positionVariable = "$slice_position"
	slicesVariable   = "$compared_slices"
	// askedRange is the Range of the request to the origin.
	askedRange = "$asked_range"
	// sentControl is the Cache-Control of the gateway's response, without one in a redirect.
	sentControl = "$sent_control"
	// sliceHeader tells the gateway the value of positionVariable.
	sliceHeader    = "X-CacheNode-Slice"
	sliceInRequest = "$http_x_cachenode_slice"
	// countedSlice is 1 for the slices that are reported to the agent.
	countedSlice = "$counted_slice"
	// redirectVariable is the X-Accel-Redirect of the gateway's response. refusedVariable is noResponse if the origin's
	// response is none.
	redirectVariable = "$redirect"
	refusedVariable  = "$refused"
	// noResponse is the location for a client whose request the origin has not answered.
	noResponse = "@no_response"
)

// hasSlices is true if large objects are fetched and stored in slices.
func (r renderer) hasSlices() bool { return len(r.disks) > 0 && r.Spec.Cache.Slice != nil }

// sliceMaps are the maps that slices need.
//
// nginx fetches the first slice for the request itself, and each of the others by a subrequest whose response it
// appends. It compares the ETags of all of them, and ends the response if they differ. That works only with strong
// ETags, and only if a subrequest never leaves its location: the body of any other response would be appended too. So
// a response that begins without a strong ETag is fetched whole (see redirects), and the failure of a subrequest ends
// the response.
func (r renderer) sliceMaps() conf.Block {
	if !r.hasSlices() {
		return nil
	}
	// nginx computes these again for each slice.
	volatile := conf.D("volatile")
	position := conf.Expression(positionVariable)
	failover := func(location string) conf.Directive {
		return conf.B("map", []conf.Argument{position, failoverOf(location)},
			volatile, conf.D("default", conf.Literal(location)),
			// Neither a name nor a path: nginx then makes a response that is no slice, and ends the client's.
			conf.Row(conf.Literal("next"), conf.Literal("none")))
	}
	block := conf.Block{
		conf.B("map",
			[]conf.Argument{
				conf.Expression(slicedVariable + ":$request_method:"),
				conf.Expression(askedRange),
			},
			volatile, conf.D("default", conf.Expression("$http_range")),
			conf.Row(conf.Expression("~^yes:(?:GET|HEAD):$"), conf.Expression(sliceVariable)),
			conf.Row(conf.Expression("~^(?:yes|no):"), conf.Literal(""))),
		// nginx remembers that a location has no slices, so the variable must not be used there.
		conf.B("map", []conf.Argument{conf.Expression(slicedVariable), position},
			volatile, conf.D("default", conf.Literal("")), conf.Row(conf.Literal("yes"), conf.Expression(slicesVariable))),
		conf.B("map", []conf.Argument{conf.Expression(firstSlice + " " + sliceVariable), conf.Expression(slicesVariable)},
			volatile, conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~^(?<same_slice>bytes=.+) \k<same_slice>$`), conf.Literal("first")),
			conf.Row(conf.Expression("~^bytes=.+ bytes="), conf.Literal("next"))),
		failover(uncached), failover(waiting),
	}
	if len(r.disks) > 1 {
		block = append(block, failover(otherDisk))
	}
	if r.hasMemoryTier() {
		block = append(block, failover(unsliced))
	}
	if !r.hasMemoryTier() {
		block = append(block, noServer())
	}
	return append(block, r.askedConditions()...)
}

// failoverOf is the variable for the location to which a request fails over, if it is not one for a later slice.
func failoverOf(location string) conf.Expression { return conf.Expression("$or_" + location[1:]) }

// slices has a location fetch and store objects in slices.
func (r renderer) slices() conf.Block {
	return conf.Block{
		r.inSlices(),
		conf.D("set", conf.Expression(slicedVariable), conf.Literal("yes")),
		// Not evaluated for subrequests.
		conf.D("set", conf.Expression(firstSlice), conf.Expression(sliceVariable)),
	}
}

func (r renderer) inSlices() conf.Directive {
	return conf.D("slice", conf.Size(r.Spec.Cache.Slice.Size.Value()))
}

// notSliced has a location ask for whole objects, or for what the client asks for.
func (r renderer) notSliced(value string) conf.Block {
	if !r.hasSlices() {
		return nil
	}
	return conf.Block{conf.D("set", conf.Expression(slicedVariable), conf.Literal(value))}
}

// storedKey is the key under which a location stores.
func (r renderer) storedKey(sliced bool) conf.Expression {
	if sliced {
		return cachekey.SliceMark + r.key()
	}
	return r.key()
}

// redirects are the maps for the X-Accel-Redirect of a response to the cache: the origin's own, but for two cases.
//
// What has a status below 200 is no response. The client would be connected to the gateway after 101 (Switching
// Protocols) if it asked for that, though the origin was never asked, and nothing that a server of clients checks would
// count any more. So the client gets 502.
//
// If a cache asks for the first slice of an object that must be fetched whole, the gateway sends it to the location for
// the whole object. Such an object has no strong ETag or no length, is empty, or came whole and does not fit the slice.
// If the origin fails, the gateway sends the cache to a stored copy of the whole. In the response to a later slice, the
// origin's own X-Accel-Redirect does not count.
//
// nginx gives clients some headers of a response with a redirect, whatever proxy_hide_header says. The gateway leaves
// them out.
func (r renderer) redirects() conf.Block {
	origins := conf.Expression("$upstream_http_x_accel_redirect")
	kept := func(value, to string) conf.Directive {
		return conf.B("map", []conf.Argument{conf.Expression(redirectVariable), conf.Expression(to)},
			conf.D("default", conf.Expression(value)), conf.Row(conf.Literal(noResponse), conf.Literal("")),
			conf.Row(conf.Literal(whole), conf.Literal("")), conf.Row(conf.Literal(stored), conf.Literal("")))
	}
	refused := conf.Expression(refusedVariable)
	block := conf.Block{
		kept(storedVariable, sentControl),
		conf.B("map", []conf.Argument{conf.Expression("$status"), refused},
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^1"), conf.Literal(noResponse))),
	}
	if !r.hasSlices() {
		return append(block, conf.B("map", []conf.Argument{refused, conf.Expression(redirectVariable)},
			conf.D("default", refused), conf.Row(conf.Literal(""), origins)))
	}
	for _, h := range copiedHeaders {
		block = append(block, kept("$upstream_http_"+h.variable, "$sent_"+h.variable))
	}
	return append(block, conf.B("map",
		[]conf.Argument{
			refused + sliceInRequest + "/$http_range/$status/$upstream_http_content_range $upstream_http_etag",
			conf.Expression(redirectVariable),
		},
		conf.D("default", origins),
		conf.Row(conf.Expression("~^[^/]*next/"), conf.Literal("")),
		conf.Row(conf.Expression("~^@"), refused),
		conf.Row(conf.Expression(`~^first/bytes=[^/]+/206/bytes [0-9]+-[0-9]+/[0-9]+ "`), origins),
		conf.Row(conf.Expression("~^first/bytes=[^/]+/206/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=[1-9][^/]*/200/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=0-[0-9]+/416/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=[^/]+/(?:"+strings.Join(staleCodes(r.Spec.Cache), "|")+")/"),
			conf.Literal(stored))))
}

// copiedHeaders are what nginx copies from a response with a redirect, beside Cache-Control, Content-Type, which the
// next response replaces, and Set-Cookie, which has to reach the cache for it not to store the response.
var copiedHeaders = []struct{ name, variable string }{
	{"Expires", "expires"}, {"Content-Disposition", "content_disposition"}, {"Accept-Ranges", "accept_ranges"},
}

// sliceLog reports the slices that the gateway fetches to the agent. As nginx logs no subrequest, a sliced response is
// one request for the cache.
func (r renderer) sliceLog() (format, log conf.Block) {
	if !r.hasSlices() || r.sampling() == 0 {
		return nil, nil
	}
	counted := conf.Argument(conf.Literal("1"))
	fetched := conf.Expression(sliceInRequest + ":$upstream_cache_status:$status:" + redirectVariable)
	if r.sampling() < 100 {
		counted = conf.Expression(sampledVariable)
	}
	format = conf.Block{
		conf.D("log_format", conf.Literal(agentapi.TagSlice),
			conf.Expression(strings.Replace(agentapi.RequestFormat, diskVariable, diskInRequest, 1))),
		conf.B("map", []conf.Argument{fetched, conf.Expression(countedSlice)},
			conf.D("default", conf.Literal("0")),
			conf.Row(conf.Expression("~^(?:first|next):(?!HIT)[A-Z]*:206:(?!@)"), counted)),
	}
	log = conf.Block{
		conf.D("access_log", toAgent(agentapi.TagSlice), conf.Literal(agentapi.TagSlice),
			conf.Expression("if="+countedSlice)),
	}
	return format, log
}

// redirectAlone is the header with the redirect.
func redirectAlone() conf.Directive {
	return conf.D("add_header",
		conf.Literal("X-Accel-Redirect"), conf.Expression(redirectVariable), conf.Literal("always"))
}

// redirect is that header, and those that nginx copies from a response with it.
func (r renderer) redirect() conf.Block {
	block := conf.Block{redirectAlone()}
	if !r.hasSlices() {
		return block
	}
	for _, h := range copiedHeaders {
		block = append(block,
			conf.D("add_header", conf.Literal(h.name), conf.Expression("$sent_"+h.variable), conf.Literal("always")))
	}
	return block
}

// inWhole are the locations to which the gateway redirects. The cookies of the first response reach the client, so
// those of the next are left out, also from the origin without a cache. In stored, nothing is fetched: without a copy,
// the client gets the origin's own error.
func (r renderer) inWhole() conf.Block {
	if !r.hasSlices() {
		return nil
	}
	noCookies := conf.D("proxy_hide_header", conf.Literal("Set-Cookie"))
	fetched := r.cached(diskLocation{
		name: whole, disk: gatewayDisk, tag: agentapi.TagCached, next: uncachedAgain, more: conf.Block{noCookies},
	})
	kept := append(r.notSliced("no"), conf.D("proxy_pass", conf.Literal("http://"+nowhere)))
	kept = append(append(kept, r.cacheOf(gatewayDisk, r.storedKey(false))...),
		conf.D("proxy_force_ranges", conf.OnOff(true)),
		noCookies,
		noSuchRange(),
		conf.D("error_page", conf.Literal("500"), conf.Literal("502"), conf.Literal("504"), conf.Literal("="),
			conf.Literal(uncachedAgain)))
	kept = slices.Concat(kept, silent(), r.rangesAsTheyAre(), r.ownControl(), r.diskIO(gatewayDisk),
		r.logs(agentapi.TagCached), r.headers(conf.Expression("$upstream_cache_status"), conf.Expression(gatewayDisk)))
	again := r.uncached(uncachedAgain, noCookies)
	return conf.Block{fetched, conf.B("location", conf.Literals(stored), kept...), again}
}

// askedConditions are the conditions of a request to the origin. Those of a client are for the whole object, so only a
// request past the caches has them. The cache's own are for an expired file.
func (r renderer) askedConditions() conf.Block {
	if !r.hasSlices() {
		return nil
	}
	var block conf.Block
	for _, c := range conditions {
		block = append(block, conf.B("map",
			[]conf.Argument{conf.Expression(slicedVariable), conf.Expression("$asked_" + c.variable)},
			conf.D("volatile"), conf.D("default", conf.Expression("$http_"+c.variable)),
			conf.Row(conf.Expression("~."), conf.Expression(c.own))))
	}
	return block
}

// conditions are the conditional headers, with nginx's variables for them, and the cache's own value.
var conditions = []struct{ name, variable, own string }{
	{"If-Range", "if_range", ""},
	{"If-Match", "if_match", ""},
	{"If-Unmodified-Since", "if_unmodified_since", ""},
	{"If-None-Match", "if_none_match", "$upstream_cache_etag"},
	{"If-Modified-Since", "if_modified_since", "$upstream_cache_last_modified"},
}
