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
// nginx applies stale-if-error only if it gets no response at all. So the gateway does not pass a server error on, but
// closes the connection. The cache then serves its copy if the stored response allows that.
//
// nginx's lock is only for objects that the cache does not have. Some expired objects may not be served stale. Without
// more, all requests for such an object would go to the origin at once. The location renewal makes them wait for the
// first request: it keeps the response for a second, with a lock. The requests that get this response do not store it
// again.
//
// A request that has waited for a second in vain asks the origin too. A long wait alone does not mean that the origin
// is slow, because requests with responses that may not be shared run one after another. If the origin does not answer
// this request within a second either, the gateway treats the origin as one that does not answer. It does so for all
// requests except the first. The location "expired" remembers this result for slowFor, so that not every request has to
// wait. If the copy may not be served stale, the cache sends the request to the gateway again, to the location patient.
// There the request waits as long as the origin may take. A request that fails there too bypasses the cache and goes to
// the origin, and the client gets the origin's own error.
const (
	expired = "@expired"
	patient = "@patient"
	renewal = "@renewal"
	fetch   = "@fetch"
	try     = "@try"
	slow    = "@slow"
	// broken is the location for a failure of the origin.
	broken = "@broken"

	// These are values of stateHeader. The caches send some of them, and the gateway sends others to itself.
	stateExpired = "EXPIRED"
	statePatient = "PATIENT"
	stateRenewal = "RENEWAL"
	stateFetch   = "FETCH"
	stateTry     = "TRY"

	// waitedVariable is stateTry for a request that has waited for the lock in vain, and stateFetch otherwise. It follows
	// from $request_time, because nginx evaluates the headers of a request after the wait. $request_time may be some
	// milliseconds less than the wait, because nginx measures them with different clocks.
	waitedVariable = "$fetch_or_try"
	// waiting is a location of the cache. A request goes there if it got no answer for an expired object and the copy may
	// not be served. A request that two other pods have not answered also goes there; see the method fetch of hops.
	waiting = "@waiting"
	// objectOfRequest identifies an object in the gateway. The cache's requests for one object differ only in their
	// conditions and in the headers that Vary names.
	objectOfRequest = "$request_method $http_x_forwarded_proto $http_x_forwarded_host $http_host$request_uri"

	// slowStatus is the gateway's answer to itself in the location slow, with stateSlow in stateHeader. If an origin sends
	// this status, stateHeader is missing. The gateway then answers itself with askStatus in the location ownStatus. After
	// that, the location patient asks the origin and passes the origin's status on. slowOrOwn contains the location slow
	// or ownStatus.
	slowStatus = "472"
	stateSlow  = "SLOW"
	slowOrOwn  = "$slow_or_own"
	askStatus  = "473"
	ownStatus  = "@own_status"
	// slowAfter is the time for which a request waits for the renewal by another request. After that, the origin may take
	// the same time to answer. slowFor is how long the gateway remembers that both waits were in vain. nginx's clock
	// counts whole seconds, so this time is sometimes a second shorter.
	slowAfter = time.Second
	slowFor   = 5 * time.Second
)

// slowMap returns the map that tells whether slowStatus came from the gateway itself or from an origin.
func slowMap() conf.Directive {
	return conf.Map("$upstream_http_x_cachenode_state", slowOrOwn,
		conf.D("default", conf.Literal(ownStatus)), conf.Row(conf.Literal(stateSlow), conf.Literal(slow)))
}

// refreshes is the part of the gateway that renews expired objects.
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

// try returns the location that asks the origin for an answer within slowAfter. For each object, one request at a time
// asks the origin. The others wait for at most twice slowAfter, and learn whether that request failed.
func (r refreshes) try() conf.Directive {
	block := append(r.renewalOf("try ", "", slowAfter),
		setHeader(diskHeader, conf.Literal("")),
		setHeader(sliceHeader, conf.Literal("")),
		setHeader(fallbackHeader, conf.Literal("")))
	block = append(append(block, r.toldRoute()...),
		conf.D("proxy_cache_valid", conf.Literal("502"), conf.Literal("504"), conf.Seconds(slowFor)),
		conf.D("proxy_no_cache", conf.Literal("1")), // nor is a response of the origin with one of these statuses stored
		conf.D("proxy_cache_lock", conf.OnOff(true)),
		conf.D("proxy_cache_lock_timeout", conf.Time(2*slowAfter)),
		conf.D("error_page", conf.Literal("502"), conf.Literal("504"), conf.Literal("="), conf.Literal(slow)),
		conf.D("proxy_pass", r.backend.url()))
	if r.removesCookies() {
		block = append(block, r.notes()...)
	}
	return location(try, append(block, r.unchanged()...)...)
}

// unchanged makes a location pass a response on without changes. Only the locations made by shared add headers.
func (g gateway) unchanged() conf.Block {
	return append(passed(append(accelHeaders(), conf.Literal("Server"), conf.Literal("Date"))),
		// Each of these two directives replaces a whole list of the server. No response contains the header that they name.
		conf.D("proxy_hide_header", conf.Literal(stateHeader)),
		conf.D("add_header", conf.Literal(stateHeader), conf.Literal("")))
}

// renewalOf returns the directives that the gateway's locations with a cache have in common. The cache is on the disk
// whose cache asks, and the keys in it begin with prefix. state is the value of stateHeader in the request to the next
// location. patience is how long the answer may take.
func (r refreshes) renewalOf(prefix string, state conf.Expression, patience time.Duration) conf.Block {
	key := r.mark() + objectOfRequest + " $http_if_none_match $http_if_modified_since"
	block := conf.Block{
		conf.D("proxy_cache", conf.Expression(refreshZone(diskInRequest))),
		conf.D("proxy_ignore_headers",
			append(accelHeaders("X-Accel-Buffering"), conf.Literal("Cache-Control"), conf.Literal("Expires"))...),
		conf.D("proxy_next_upstream", conf.Literal("off")), // only the location fetch tries again
		conf.D("proxy_read_timeout", conf.Time(patience)),
		// In a location with a cache, nginx leaves the conditions out. A location that sets headers does not inherit the
		// headers that the server sets.
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
	return append(block, conf.D("proxy_cache_key", conf.Expression(prefix)+key))
}

// shared makes a location keep a response for a second, for the requests that wait for it. patience is how long they
// wait. Errors of the origin are kept too, so that a failing origin gets one request per second for an object.
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

// staleCodes returns the status codes of the origin for which a stale copy is served instead.
func staleCodes(c v1alpha1.Cache) []string {
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

// refreshZone returns the name of the gateway's cache for a disk.
func refreshZone(disk string) string { return "refresh_" + disk }
