package cache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// lifetimeVariable is the X-Accel-Expires of the gateway's response. plainLifetime is its value without cache.ttl, and
	// ttlLifetime the value with it.
	lifetimeVariable = "$accel_expires"
	plainLifetime    = "$plain_lifetime"
	ttlLifetime      = "$ttl_lifetime"
	// ttlEntry is the position of the entry of cache.ttl for the status of a response, counted from 1; "" if there is
	// none. failedRenewal is 1 for a response that must not replace an expired object because of cache.ttl.
	ttlEntry      = "$ttl_entry"
	failedRenewal = "$is_failed_renewal"
	// expiresIn is the number of seconds until the date in Expires. boundedExpires is the lifetime of a response with such
	// a date, raised or lowered by cache.ttl.
	expiresIn      = "$expires_in"
	boundedExpires = "$bounded_expires"
)

// changesTTL returns true if rules change lifetimes.
func changesTTL(r v1alpha1.CacheRules) bool { return len(r.TTL) > 0 }

// boundsTTL returns true if rules raise or lower lifetimes, for which the date in Expires must be compared.
func boundsTTL(r v1alpha1.CacheRules) bool {
	return slices.ContainsFunc(r.TTL, func(t v1alpha1.TTL) bool { return t.Min != nil || t.Max != nil })
}

// comparesExpires returns true if the script compares the date in Expires. Without the script, cache.ttl does not raise
// or lower a lifetime that is a date.
func (s site) comparesExpires() bool {
	return s.Facts.Scripts && (boundsTTL(s.Cache.CacheRules) || s.anyPolicy(boundsTTL))
}

// lifetimes returns the maps for the X-Accel-Expires of the gateway's response.
func (m gatewayMaps) lifetimes() conf.Block {
	variable := conf.Expression(lifetimeVariable)
	var of conf.Block
	switch {
	case changesTTL(m.Cache.CacheRules):
		of = append(m.ttlMaps(), conf.Map("", lifetimeVariable, conf.D("default", conf.Expression(ttlLifetime))))
	case m.anyPolicy(changesTTL):
		of = m.byPolicy(site.ttlMaps, selected{ttlLifetime, conf.Expression(plainLifetime)})
		of = append(of, conf.Map("", lifetimeVariable, conf.D("default", conf.Expression(ttlLifetime))))
	default:
		return conf.Block{m.plainLifetime(variable)}
	}
	states := strings.Join([]string{
		stateExpired, statePatient, stateRenewal, stateFetch, stateTry, stateBackground, stateRenewer,
	}, "|")
	return append(conf.Block{
		m.plainLifetime(plainLifetime),
		// The gateway does not know whether a POST renews an object.
		conf.Map("$request_method:"+stateInRequest+":$status", failedRenewal, conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?:POST:.*|[A-Z]+:(?:"+states+")):(?:4(?!04|10)|5)"), conf.Literal("1"))),
	}, of...)
}

// ttlMaps returns the maps for ttlLifetime. It reads a lifetime from the same places as nginx, in nginx's order:
// X-Accel-Expires, then Cache-Control (s-maxage, then max-age), then Expires.
//
// nginx stores a response with X-Accel-Expires, whatever Cache-Control contains. So a response whose Cache-Control
// forbids to store it keeps its plain lifetime.
func (s site) ttlMaps() conf.Block {
	if !changesTTL(s.Cache.CacheRules) {
		return nil
	}
	const plain = conf.Expression(plainLifetime)
	entries := conf.Block{conf.D("default", conf.Literal(""))}
	rows := conf.Block{
		conf.D("default", plain),
		conf.Row(conf.Expression("~^[0-9]*:1:"), plain),
		conf.Row(conf.Expression("~*^[^|]*[|][^|]*[|].*(?:no-store|no-cache|private)"), plain),
	}
	expires := conf.Block{conf.D("default", plain)}
	for i, t := range s.Cache.TTL {
		for _, status := range s.statusesOf(t) {
			entries = append(entries, conf.Row(conf.Int(status), conf.Literal(fmt.Sprint(i+1))))
		}
		rows = append(rows, ttlRows(i+1, t, s.Facts.Scripts)...)
		expires = append(expires, bounded(fmt.Sprintf("~^%d:", i+1), "$", t)...)
	}
	block := conf.Block{
		conf.Map("$status", ttlEntry, entries...),
		conf.Map(conf.Expression(ttlEntry+":"+failedRenewal+":$upstream_http_x_accel_expires|$upstream_http_expires|"+
			controlVariable), ttlLifetime, rows...),
	}
	if s.Facts.Scripts && boundsTTL(s.Cache.CacheRules) {
		block = append(block, conf.Map(conf.Expression(ttlEntry+":"+expiresIn), boundedExpires, expires...))
	}
	return block
}

// statusesOf returns the status codes of an entry. A slice of an object comes with the status 206. A response with the
// status 304 renews an object whose status the gateway does not know; it counts as 200.
func (s site) statusesOf(t v1alpha1.TTL) (list []v1alpha1.TTLStatus) {
	const ok, partial, unchanged = v1alpha1.TTLStatus(200), v1alpha1.TTLStatus(206), v1alpha1.TTLStatus(304)
	isNamed := func(status v1alpha1.TTLStatus) bool {
		return slices.ContainsFunc(s.Cache.TTL, func(t v1alpha1.TTL) bool { return slices.Contains(t.Status, status) })
	}
	list = slices.Clone(t.Status)
	if !slices.Contains(t.Status, ok) {
		return list
	}
	if s.hasSlices() && !isNamed(partial) {
		list = append(list, partial)
	}
	if !isNamed(unchanged) {
		list = append(list, unchanged)
	}
	return list
}

// ttlRows returns the rows of the map for ttlLifetime for one entry of cache.ttl.
func ttlRows(entry int, t v1alpha1.TTL, hasScript bool) conf.Block {
	const plain = conf.Expression(plainLifetime)
	own := fmt.Sprintf("%d::", entry)
	if t.Force != nil {
		return conf.Block{conf.Row(conf.Expression("~^"+own), secondsOf(*t.Force))}
	}
	otherwise := conf.Argument(plain)
	if t.Default != nil {
		otherwise = secondsOf(*t.Default)
	}
	date := conf.Argument(plain)
	if hasScript && (t.Min != nil || t.Max != nil) {
		date = conf.Expression(boundedExpires)
	}
	control := "~*^" + own + "[|][^|]*[|]"
	rows := bounded("~^"+own, "[|]", t)
	rows = append(rows, conf.Row(conf.Expression("~^"+own+"[^|]"), plain))
	rows = append(rows, bounded(control+"(?:(?!s-maxage=).)*s-maxage=", "(?![0-9])", t)...)
	rows = append(rows, conf.Row(conf.Expression(control+".*s-maxage="), plain))
	rows = append(rows, bounded(control+"(?:(?!max-age=).)*max-age=", "(?![0-9])", t)...)
	return append(rows,
		conf.Row(conf.Expression(control+".*max-age="), plain),
		conf.Row(conf.Expression("~^"+own+"[|][^|]+[|]"), date),
		conf.Row(conf.Expression("~^"+own+"[|][|]"), otherwise))
}

// bounded returns the rows that raise or lower a lifetime. before and after match the text around its digits.
func bounded(before, after string, t v1alpha1.TTL) (rows conf.Block) {
	if t.Min != nil {
		if least := int64(effective.Duration(*t.Min).Seconds()); least > 0 {
			rows = append(rows, conf.Row(conf.Expression(before+"0*"+atMost(least-1)+after), secondsOf(*t.Min)))
		}
	}
	if t.Max != nil {
		rows = append(rows,
			conf.Row(conf.Expression(before+"0*"+atMost(int64(effective.Duration(*t.Max).Seconds()))+after),
				conf.Expression(plainLifetime)),
			conf.Row(conf.Expression(before+"[0-9]+"+after), secondsOf(*t.Max)))
	}
	return rows
}

// secondsOf returns a duration in whole seconds, without a unit.
func secondsOf(d v1alpha1.Duration) conf.Literal {
	return conf.Literal(strings.TrimSuffix(string(conf.Seconds(effective.Duration(d))), "s"))
}

// plainLifetime returns the map for a variable with the X-Accel-Expires of the gateway's response without cache.ttl. It
// is the origin's own value, except in two cases.
//
// nginx stores a response with this header, whatever Cache-Control contains. A response for one client only, or one
// that nobody may keep, must not be stored. So the gateway leaves the header out if Cache-Control contains private or
// no-store.
//
// The origin may answer that a copy is still valid without sending a lifetime. The copy is then fresh again for the
// time that cache.valid defines. nginx would take the time from the stored response. For an object that was copied
// from another pod or disk, that time is only some seconds.
func (m gatewayMaps) plainLifetime(variable conf.Expression) conf.Directive {
	const ok = v1alpha1.StatusCode(200)
	given := conf.Expression("$status:$upstream_http_x_accel_expires$upstream_http_expires:" + controlVariable)
	rows := conf.Block{
		conf.D("default", conf.Expression("$upstream_http_x_accel_expires")),
		conf.Row(conf.Expression("~*:.*(?:no-store|private)"), conf.Literal("")),
	}
	i := slices.IndexFunc(m.Cache.Valid, func(v v1alpha1.Validity) bool { return slices.Contains(v.Status, ok) })
	if m.answersAbsent() && i >= 0 {
		rows = append(rows,
			conf.Row(conf.Expression("~*^304::(?!.*(?:max-age|no-cache))"), secondsOf(m.Cache.Valid[i].For)))
	}
	return conf.Map(given, variable, rows...)
}
