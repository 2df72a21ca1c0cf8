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
	// uncachedAgain does the same as the location uncached. It is for requests that the gateway has already redirected
	// once.
	uncachedAgain = "@uncached_again"
	// passInWhole does the same as pass, but leaves out cookies. stateHeadInWhole tells the gateway that the client sent
	// a HEAD for an object that the location whole does not have. headInWhole is the gateway's location for it.
	passInWhole      = "@pass_in_whole"
	stateHeadInWhole = "HEAD_IN_WHOLE"
	headInWhole      = "@head_in_whole"
	// unsliced is the location in which the memory tier finds objects that cannot be fetched in slices. stored is the
	// location in which requests find such objects while the origin fails.
	unsliced = "@unsliced"
	stored   = "@stored"
	// slicedVariable defines what a location requests from the origin: "yes" means slices, and "no" means the whole
	// object. "" means what the client requests.
	slicedVariable = "$sliced"
	// sliceVariable is nginx's variable with the range of the slice that is requested.
	sliceVariable = "$slice_range"
	// firstSlice is the slice with which the response to a client begins.
	firstSlice = "$first_slice"
	// positionVariable is "first" for the slice with which a response begins, and "next" for the slices after it.
	// slicesVariable has the same values, but it is only for locations with slices.
	positionVariable = "$slice_position"
	slicesVariable   = "$compared_slices"
	// askedRange is the Range of the request to the origin.
	askedRange = "$asked_range"
	// sentControl is the Cache-Control of the gateway's response; "" in a redirect.
	sentControl = "$sent_control"
	// sliceHeader tells the gateway the value of positionVariable.
	sliceHeader    = "X-CacheNode-Slice"
	sliceInRequest = "$http_x_cachenode_slice"
	// countedSlice is 1 for the slices that are reported to the agent.
	countedSlice = "$counted_slice"
	// redirectVariable is the X-Accel-Redirect of the gateway's response. refusedVariable is noResponse if the origin's
	// response has a status below 200, and "" otherwise.
	redirectVariable = "$redirect"
	refusedVariable  = "$refused"
	// noResponse is the location for a client's request if the origin sent no valid response to it.
	noResponse = "@no_response"
)

// hasSlices returns true if large objects are fetched and stored in slices.
func (s site) hasSlices() bool { return len(s.disks) > 0 && s.Cache.Slice != nil }

// sliceMaps returns the maps that slices need.
//
// nginx fetches the first slice with the request itself, and each later slice with a subrequest whose response it
// appends. It compares the ETags of all slices, and ends the response if they differ. That works only with strong
// ETags. It also works only if a subrequest never leaves its location, because otherwise nginx would append the body of
// another response. So an object without a strong ETag is fetched whole (see redirects), and the failure of a
// subrequest ends the response.
func (k core) sliceMaps() conf.Block {
	if !k.hasSlices() {
		return nil
	}
	// nginx computes these variables again for each slice.
	volatile := conf.D("volatile")
	position := conf.Expression(positionVariable)
	failover := func(location string) conf.Directive {
		return conf.Map(position, failoverOf(location),
			volatile, conf.D("default", conf.Literal(location)),
			// The value "none" is neither the name of a location nor a path. nginx then makes a response that is not a slice,
			// and so it ends the client's response.
			conf.Row(conf.Literal("next"), conf.Literal("none")))
	}
	block := conf.Block{
		conf.Map(slicedVariable+":$request_method:", askedRange,
			volatile, conf.D("default", conf.Expression("$http_range")),
			conf.Row(conf.Expression("~^yes:(?:GET|HEAD):$"), conf.Expression(sliceVariable)),
			conf.Row(conf.Expression("~^(?:yes|no):"), conf.Literal(""))),
		// nginx remembers that a location has no slices, so $slice_range must not be used in such a location.
		conf.Map(slicedVariable, position,
			volatile, conf.D("default", conf.Literal("")), conf.Row(conf.Literal("yes"), conf.Expression(slicesVariable))),
		conf.Map(firstSlice+" "+sliceVariable, slicesVariable,
			volatile, conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~^(?<same_slice>bytes=.+) \k<same_slice>$`), conf.Literal("first")),
			conf.Row(conf.Expression("~^bytes=.+ bytes="), conf.Literal("next"))),
		failover(uncached), failover(waiting),
	}
	if len(k.disks) > 1 {
		block = append(block, failover(otherDisk))
	}
	if k.hasMemoryTier() {
		block = append(block, failover(unsliced))
	}
	if !k.hasMemoryTier() {
		block = append(block, noServer())
	}
	return append(block, k.askedConditions()...)
}

// failoverOf returns the variable with the location to which a request fails over. The request for a later slice does
// not fail over.
func failoverOf(location string) conf.Expression { return conf.Expression("$or_" + location[1:]) }

// slices makes a location fetch and store objects in slices.
func (s site) slices() conf.Block {
	return conf.Block{
		s.inSlices(),
		set(slicedVariable, conf.Literal("yes")),
		// nginx does not evaluate this directive for subrequests.
		set(firstSlice, conf.Expression(sliceVariable)),
	}
}

func (s site) inSlices() conf.Directive {
	return conf.D("slice", conf.Size(s.Cache.Slice.Size.Value()))
}

// notSliced makes a location request whole objects if value is "no". If value is "", the location requests what the
// client requests.
func (s site) notSliced(value string) conf.Block {
	if !s.hasSlices() {
		return nil
	}
	return conf.Block{set(slicedVariable, conf.Literal(value))}
}

// storedKey returns the key under which a location stores responses.
func (s site) storedKey(sliced bool) conf.Expression {
	if sliced {
		return cachekey.SliceMark + s.key()
	}
	return s.key()
}

// redirects returns the maps for the X-Accel-Redirect of a response to the cache. It is the origin's own value,
// except in two cases.
//
// First, an answer with a status below 200 is not a response. After a 101 (Switching Protocols), nginx would connect
// the client directly to the gateway, although it never asked the origin for another protocol. The checks of the server
// for clients would then no longer apply. So the client gets 502 instead.
//
// Second, a cache may ask for the first slice of an object that must be fetched whole. The gateway then sends the cache
// to the location for the whole object. Such an object has no strong ETag or no known length, or it is empty. Or the
// origin sent the whole object although a later slice was requested. If the origin fails, the gateway sends the cache
// to a stored copy of the whole object. In the response to a request for a later slice, the origin's own
// X-Accel-Redirect is ignored.
//
// If a response contains a redirect, nginx copies some of its headers into the client's response, even with
// proxy_hide_header. So the gateway leaves these headers out.
func (m gatewayMaps) redirects() conf.Block {
	origins := conf.Expression("$upstream_http_x_accel_redirect")
	kept := func(value, to conf.Expression) conf.Directive {
		return conf.Map(redirectVariable, to,
			conf.D("default", value), conf.Row(conf.Literal(noResponse), conf.Literal("")),
			conf.Row(conf.Literal(whole), conf.Literal("")), conf.Row(conf.Literal(stored), conf.Literal("")))
	}
	refused := conf.Expression(refusedVariable)
	block := conf.Block{
		kept(storedVariable, sentControl),
		conf.Map("$status", refused,
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^1"), conf.Literal(noResponse))),
	}
	if !m.hasSlices() {
		return append(block, conf.Map(refused, redirectVariable,
			conf.D("default", refused), conf.Row(conf.Literal(""), origins)))
	}
	for _, h := range copiedHeaders {
		block = append(block, kept("$upstream_http_"+h.variable, "$sent_"+h.variable))
	}
	return append(block, conf.Map(
		refused+sliceInRequest+"/$http_range/$status/$upstream_http_content_range $upstream_http_etag", redirectVariable,
		conf.D("default", origins),
		conf.Row(conf.Expression("~^[^/]*next/"), conf.Literal("")),
		conf.Row(conf.Expression("~^@"), refused),
		conf.Row(conf.Expression(`~^first/bytes=[^/]+/206/bytes [0-9]+-[0-9]+/[0-9]+ "`), origins),
		conf.Row(conf.Expression("~^first/bytes=[^/]+/206/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=[1-9][^/]*/200/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=0-[0-9]+/416/"), conf.Literal(whole)),
		conf.Row(conf.Expression("~^first/bytes=[^/]+/(?:"+strings.Join(staleCodes(m.Cache), "|")+")/"),
			conf.Literal(stored))))
}

// copiedHeaders are headers that nginx copies from a response with a redirect, and that the gateway leaves out for this
// reason. nginx also copies Cache-Control, Content-Type and Set-Cookie. The response after the redirect replaces
// Content-Type. Set-Cookie must reach the cache, so that the cache does not store the response.
var copiedHeaders = []struct {
	name     string
	variable conf.Expression
}{
	{"Expires", "expires"}, {"Content-Disposition", "content_disposition"}, {"Accept-Ranges", "accept_ranges"},
}

// sliceFormat returns the log format for slices, and the map that selects the slices that are reported.
func (m gatewayMaps) sliceFormat() conf.Block {
	if !m.hasSlices() || m.sampling() == 0 {
		return nil
	}
	counted := conf.Argument(conf.Literal("1"))
	fetched := conf.Expression(sliceInRequest + ":$upstream_cache_status:$status:" + redirectVariable)
	if m.sampling() < 100 {
		counted = conf.Expression(sampledVariable)
	}
	return conf.Block{
		conf.D("log_format", conf.Literal(agentapi.TagSlice),
			conf.Expression(strings.Replace(agentapi.RequestFormat, diskVariable, diskInRequest, 1))),
		conf.Map(fetched, countedSlice,
			conf.D("default", conf.Literal("0")),
			conf.Row(conf.Expression("~^(?:first|next):(?!HIT)[A-Z]*:206:(?!@)"), counted)),
	}
}

// logsSlices returns the directive that reports the slices that the gateway fetches to the agent. nginx does not log
// subrequests, so a response in slices counts as one request to the cache.
func (g gateway) logsSlices() conf.Block {
	if !g.hasSlices() || g.sampling() == 0 {
		return nil
	}
	return conf.Block{
		conf.D("access_log", toAgent(agentapi.TagSlice), conf.Literal(agentapi.TagSlice),
			conf.Expression("if="+countedSlice)),
	}
}

// redirectAlone returns the directive for the header X-Accel-Redirect, without the directives for the copied headers.
func redirectAlone() conf.Directive {
	return addHeader("X-Accel-Redirect", conf.Expression(redirectVariable))
}

// redirect returns the directives for the header X-Accel-Redirect and for the copied headers.
func (g gateway) redirect() conf.Block { return append(conf.Block{redirectAlone()}, g.copied()...) }

// copied returns the directives for the copied headers. These headers are empty if the gateway itself redirects.
func (g gateway) copied() (block conf.Block) {
	if !g.hasSlices() {
		return nil
	}
	for _, h := range copiedHeaders {
		block = append(block,
			addHeader(h.name, "$sent_"+h.variable))
	}
	return block
}

// inWhole returns the locations for objects that cannot be fetched in slices. The gateway redirects to two of them, and
// these two fall back to the third. The cookies of the response with the redirect reach the client. So these locations
// leave out the cookies of their own responses, even if a response comes from the origin without a cache. A HEAD goes
// from the location whole to passInWhole. The location
// stored fetches nothing. If it has no copy, the client gets the origin's own error.
func (s store) inWhole() conf.Block {
	if !s.hasSlices() {
		return nil
	}
	noCookies := conf.D("proxy_hide_header", conf.Literal("Set-Cookie"))
	fetched := s.cached(diskLocation{
		name: whole, disk: gatewayDisk, tag: agentapi.TagCached, next: uncachedAgain, more: conf.Block{noCookies},
	})
	kept := append(s.notSliced("no"), conf.D("proxy_pass", conf.Literal("http://"+nowhere)))
	kept = append(append(kept, s.cacheOf(gatewayDisk, s.storedKey(false))...),
		conf.D("proxy_force_ranges", conf.OnOff(true)),
		noCookies,
		noSuchRange(),
		conf.D("error_page", conf.Literal("500"), conf.Literal("502"), conf.Literal("504"), conf.Literal("="),
			conf.Literal(uncachedAgain)))
	kept = slices.Concat(kept, silent(), s.rangesAsTheyAre(), s.ownControl(), s.diskIO(gatewayDisk),
		s.logs(agentapi.TagCached), s.headers(conf.Expression("$upstream_cache_status"), conf.Expression(gatewayDisk)))
	again := s.uncached(uncachedAgain, noCookies)
	return conf.Block{fetched, location(stored, kept...), again, s.past(passInWhole, noCookies)}
}

// headStates returns the row for a HEAD in the location whole in the map for stateVariable.
func (s site) headStates() conf.Block {
	if !s.hasSlices() {
		return nil
	}
	return conf.Block{conf.Row(conf.Expression("~.:MISS:HEAD:"+fromWhole), conf.Literal(stateHeadInWhole))}
}

// headPlaces returns the row for a HEAD in the location whole in the map for byStateVariable.
func (s site) headPlaces() conf.Block {
	if !s.hasSlices() {
		return nil
	}
	return conf.Block{conf.Row(conf.Literal(stateHeadInWhole), conf.Literal(headInWhole))}
}

// askedConditions returns the maps for the conditions of a request to the origin. The conditions of a client apply to
// the whole object, so only a request that bypasses the caches keeps them. The cache's own conditions are for the
// renewal of an expired file.
func (k core) askedConditions() conf.Block {
	if !k.hasSlices() {
		return nil
	}
	var block conf.Block
	for _, c := range conditions {
		block = append(block, conf.Map(slicedVariable, "$asked_"+c.variable,
			conf.D("volatile"), conf.D("default", "$http_"+c.variable),
			conf.Row(conf.Expression("~."), c.own)))
	}
	return block
}

// conditions are the conditional headers, with nginx's variables for them, and the cache's own value.
var conditions = []struct {
	name          string
	variable, own conf.Expression
}{
	{"If-Range", "if_range", ""},
	{"If-Match", "if_match", ""},
	{"If-Unmodified-Since", "if_unmodified_since", ""},
	{"If-None-Match", "if_none_match", "$upstream_cache_etag"},
	{"If-Modified-Since", "if_modified_since", "$upstream_cache_last_modified"},
}
