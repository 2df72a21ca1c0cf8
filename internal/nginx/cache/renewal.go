package cache

import (
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// A request for an expired object goes through locations of the gateway:
//
//	expired ─▶ renewal ─▶ fetch ─▶ the origin
//	               └────▶ try ───▶ the origin     for a request that has waited for another's renewal for a second
//	patient ─▶ fetch ─▶ the origin
//
// nginx heeds stale-if-error only if it gets no response at all. So the gateway closes the connection instead of
// passing on a server error, and the cache serves its copy if the stored response allows that.
//
// Requests for an expired object that may not be served stale would all go to the origin at once, because nginx's lock
// is for objects that the cache does not have. The location renewal has them wait for the first: it keeps the response
// for a second, with a lock. Those that get it from there do not store it again.
//
// Who has waited for a second in vain asks the origin too: responses that may not be shared come one after another, so
// a long wait does not yet mean a slow origin. An origin that does not answer this question within a second either
// counts as one that does not answer, for all but the first. The location expired remembers that for slowFor, so that
// they do not wait each time. If their copy may not be served stale, they come back to the location patient and wait
// as long as the origin may take. What fails there too goes to the origin past the cache, and the client gets the
// origin's own error.
const (
	expired = "@expired"
	patient = "@patient"
	renewal = "@renewal"
	fetch   = "@fetch"
	try     = "@try"
	slow    = "@slow"
	// broken is the location for a failure of the origin.
	broken = "@broken"

	// Values of stateHeader: from the caches, and from the gateway to itself.
	stateExpired = "EXPIRED"
	statePatient = "PATIENT"
	stateRenewal = "RENEWAL"
	stateFetch   = "FETCH"
	stateTry     = "TRY"

	// $request_time may be some milliseconds less than the wait, as nginx takes the two from different clocks.
	// waitedVariable is stateTry for a request that has waited for the lock in vain, and else stateFetch. nginx evaluates
	// the headers of a request after the wait.
	waitedVariable = "$fetch_or_try"
	// waiting is the cache's location to which a request for an expired object comes if there is no answer and its copy
	// may not be served. A request that two other pods have not answered comes there, too: see fetch.
	waiting = "@waiting"
	// objectOfRequest is what identifies an object in the gateway. The requests of the cache for an object differ in
	// nothing else but their conditions and what Vary names.
	objectOfRequest = "$request_method $http_x_forwarded_proto $http_x_forwarded_host $http_host$request_uri"

	// slowStatus is the gateway's answer to itself in the location slow, which has stateSlow in stateHeader. If an origin
	// sends this status, it comes without, and the gateway answers itself with askStatus in the location ownStatus: the
	// location patient asks the origin, and passes its status on. slowOrOwn is one of the two locations.
	slowStatus = "472"
	stateSlow  = "SLOW"
	slowOrOwn  = "$slow_or_own"
	askStatus  = "473"
	ownStatus  = "@own_status"
	// slowAfter is how long a request waits for the renewal of another, and how long the origin may then take. slowFor is
	// for how long it is remembered that both were in vain. nginx's clock has whole seconds, so it is a second less at
	// times.
	slowAfter = time.Second
	slowFor   = 5 * time.Second
)

// slowMap tells the gateway's own slowStatus from an origin's.
func slowMap() conf.Directive {
	return conf.Map("$upstream_http_x_cachenode_state", slowOrOwn,
		conf.D("default", conf.Literal(ownStatus)), conf.Row(conf.Literal(stateSlow), conf.Literal(slow)))
}

// renewals are the gateway's part that renews expired objects.
type refreshes struct{ gateway }

// locations returns the gateway's locations for expired objects.
func (r refreshes) locations() conf.Block {
	self := r.entry.url()
	fails := []conf.Directive{
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		conf.D("error_page", conf.Literals(append(staleCodes(r.Cache), "=", broken)...)...),
	}
	remembers := append(r.renewalOf("slow ", stateRenewal, r.LongestFetch()),
		conf.D("proxy_cache_valid", conf.Literal(slowStatus), conf.Seconds(slowFor)),
		conf.D("error_page", conf.Literal(slowStatus), conf.Literal("="), conf.Literal(broken)),
		conf.D("error_page", conf.Literal(askStatus), conf.Literal("="), conf.Literal(patient)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
		conf.D("proxy_pass", self))
	remembers = slices.Concat(remembers, fails, r.orStale(), r.unchanged())
	shares := func(name string, state conf.Expression, patience time.Duration, more ...conf.Directive) conf.Directive {
		block := append(append(r.shared(state, patience), fails...), more...)
		return location(name, append(block, conf.D("proxy_pass", self))...)
	}
	return conf.Block{
		location(expired, remembers...),
		shares(renewal, waitedVariable, slowAfter,
			conf.D("error_page", conf.Literal(slowStatus), conf.Literal("="), conf.Expression(slowOrOwn))),
		shares(patient, stateFetch, r.LockTimeout(), r.orStale()...),
		location(fetch, slices.Concat(r.unchanged(), r.notes(), r.orAgain(againInFetch), conf.Block{
			conf.D("recursive_error_pages", conf.OnOff(true)), conf.D("proxy_pass", r.backend.url()),
		})...),
		r.try(),
		location(slow,
			addHeader(stateHeader, conf.Literal(stateSlow)),
			conf.D("return", conf.Literal(slowStatus))),
		location(ownStatus, conf.D("return", conf.Literal(askStatus))),
		location(broken, conf.D("return", conf.Literal("444"))),
	}
}

// try asks the origin for an answer within slowAfter. One request does for each object; the others learn whether that
// was in vain.
func (r refreshes) try() conf.Directive {
	block := append(r.renewalOf("try ", "", slowAfter),
		setHeader(diskHeader, conf.Literal("")),
		setHeader(sliceHeader, conf.Literal("")),
		setHeader(fallbackHeader, conf.Literal("")),
		conf.D("proxy_cache_valid", conf.Literal("502"), conf.Literal("504"), conf.Seconds(slowFor)),
		conf.D("proxy_no_cache", conf.Literal("1")), // not even a response with one of these statuses
		conf.D("proxy_cache_lock", conf.OnOff(true)),
		conf.D("proxy_cache_lock_timeout", conf.Time(2*slowAfter)),
		conf.D("error_page", conf.Literal("502"), conf.Literal("504"), conf.Literal("="), conf.Literal(slow)),
		conf.D("proxy_pass", r.backend.url()))
	return location(try, append(block, r.unchanged()...)...)
}

// unchanged makes a location pass on a response as it is. What would be added to it is added by the location shared.
func (g gateway) unchanged() conf.Block {
	return append(passed(append(accelHeaders(), conf.Literal("Server"), conf.Literal("Date"))),
		// Each replaces a list of the server. No response has these headers.
		conf.D("proxy_hide_header", conf.Literal(stateHeader)),
		conf.D("add_header", conf.Literal(stateHeader), conf.Literal("")))
}

// renewalOf returns what the locations with a cache have in common: a cache of the asking disk, whose keys have a
// prefix, what they ask the next location for, and how long that may take.
func (r refreshes) renewalOf(prefix string, state conf.Expression, patience time.Duration) conf.Block {
	key := objectOfRequest + " $http_if_none_match $http_if_modified_since"
	block := conf.Block{
		conf.D("proxy_cache", conf.Expression(refreshZone(diskInRequest))),
		conf.D("proxy_ignore_headers",
			append(accelHeaders("X-Accel-Buffering"), conf.Literal("Cache-Control"), conf.Literal("Expires"))...),
		conf.D("proxy_next_upstream", conf.Literal("off")), // the location fetch tries again
		conf.D("proxy_read_timeout", conf.Time(patience)),
		// nginx leaves the conditions out where it caches, and what a location sets replaces what the server sets.
		setHeader("If-None-Match", conf.Expression("$http_if_none_match")),
		setHeader("If-Modified-Since", conf.Expression("$http_if_modified_since")),
		setHeader("Host", conf.Expression("$http_host")),
		setHeader("Connection", conf.Literal("")),
		setHeader(stateHeader, state),
		setHeader(fillHeader, conf.Literal("")),
		setHeader(formerHeader, conf.Literal("")),
	}
	if r.hasSlices() {
		key = "$http_range " + key
		block = append(block, setHeader("Range", conf.Expression("$http_range")))
	}
	return append(block, conf.D("proxy_cache_key", conf.Expression(prefix+key)))
}

// shared keeps a response for a second, for the requests that wait for it for as long as they have patience. Errors of
// the origin count too, so that a failing origin gets one request a second for an object.
func (r refreshes) shared(state conf.Expression, patience time.Duration) conf.Block {
	kept := conf.Literals("200", "203", "301", "302", "304", "404", "410", "500", "502", "503", "504")
	if r.hasSlices() {
		kept = append(conf.Literals("206"), kept...)
	}
	block := append(r.renewalOf("", state, r.LongestFetch()),
		conf.D("proxy_cache_valid", append(kept, conf.Literal("1s"))...),
		conf.D("proxy_no_cache",
			conf.Expression(ownOnly), conf.Expression(variesVariable), conf.Expression(partialVariable),
			conf.Expression("$upstream_http_x_accel_redirect")),
		conf.D("proxy_cache_lock", conf.OnOff(ptr.Deref(r.Cache.Lock.Enabled, true))),
		conf.D("proxy_cache_lock_timeout", conf.Time(patience)),
		conf.D("proxy_cache_lock_age", conf.Time(r.LockAge())),
		addHeader(sharedHeader, conf.Expression("$upstream_cache_status")))
	return append(block, r.toCache()...)
}

// staleCodes returns the status codes of the origin instead of which a stale copy is served.
func staleCodes(c v1alpha1.CachePolicy) []string {
	if c.UseStale == nil {
		return []string{"500", "502", "503", "504"}
	}
	codes := []string{"502", "504"} // the gateway's own, if the origin gives no answer
	for _, reason := range c.UseStale {
		code, isCode := strings.CutPrefix(string(reason), "HTTP")
		if isCode && code != "502" && code != "504" {
			codes = append(codes, code)
		}
	}
	return codes
}

// refreshZone returns the gateway's cache for a disk.
func refreshZone(disk string) string { return "refresh_" + disk }
