package cache

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// unlocked is the location for an object that is noted, because a response for it may not be stored. There, no
	// request waits for another.
	unlocked = "@unlocked"
	// fromVariable identifies the location of the cache that asks the gateway. It is one of the next three values, or ""
	// for any other location.
	fromVariable = "$asks_from"
	fromDisk     = "disk"
	fromWaiting  = "waiting"
	fromUnlocked = "unlocked"
	// fromWhole identifies the location whole.
	fromWhole = "whole"

	// Values of stateHeader for an object that the cache does not have. stateMiss comes from fromDisk. stateWaited also
	// comes from fromDisk, but after a wait for the lock. stateLate comes from fromWaiting, and stateUnlocked comes from
	// fromUnlocked. misses matches all of them. missVariable is stateMiss or stateWaited.
	stateMiss     = "MISS"
	stateWaited   = "WAITED"
	stateLate     = "LATE"
	stateUnlocked = "UNLOCKED"
	misses        = stateMiss + "|" + stateWaited + "|" + stateLate + "|" + stateUnlocked
	missVariable  = "$miss"

	// toUnlocked, toWaiting and toPass are the gateway's locations that send a request back to a location of the cache.
	// Each of the variables contains one of these locations, or "" for a request that goes on to the origin.
	toUnlocked      = "@to_unlocked"
	toWaiting       = "@to_waiting"
	toPass          = "@to_pass"
	afterMiss       = "$after_miss"
	afterWait       = "$after_wait"
	afterSecondWait = "$after_second_wait"

	// unstorableVariable is 1 for a response that may not be stored, 0 for a response that may be stored, and "" if that
	// is not known. notedVariable is 1 for an object that the script remembers because of a response that may not be
	// stored. hitForMissKey is the key of the object in the script's memory.
	unstorableVariable = "$is_unstorable"
	notedVariable      = "$is_noted"
	hitForMissKey      = "$hit_for_miss_key"

	// firstWait is how long a request waits for the lock in the location of its disk, before it asks the gateway whether
	// to wait longer. A request that comes while another request asks the gateway also waits for this time. In a longer
	// wait, nginx checks every half second whether the lock is free.
	firstWait = 200 * time.Millisecond
	// notedFor is how long an object is remembered after the last response that could not be stored.
	notedFor = 10 * time.Second
)

// hitsForMiss returns true if requests for an object whose responses may not be stored do not wait for each other.
//
// With nginx's lock, all requests for an object that the cache does not have wait for the first one. If the response
// to the first request may not be stored, the others go to the origin one by one, half a second apart. Varnish calls
// the solution hit-for-miss: remember such an object, and skip only the lock for it.
//
//	disk ─▶ gateway ─▶ the origin                       the first: the script notes a response that may not be stored
//	disk ─▶ gateway ─▶ unlocked ─▶ gateway ─▶ the origin     the others, after firstWait, and all from then on
//	disk ─▶ gateway ─▶ waiting                          those that have waited in vain, for an object without a note
//
// Each request first looks its object up. So an object that is stored and fresh is served, whatever the script has
// noted. The location unlocked looks the object up once more, and stores a response that may be stored. For a noted
// object, the gateway answers at once, so the lock is held only for a moment. A request that comes in that moment
// waits for firstWait. With slices, the request for a later slice could not be sent to another location. So with
// slices, the first wait is as long as the second wait.
//
// A note ends when a response comes that may be stored. After that, the script makes no new note about the object for
// the time notedFor.
//
// The script runs only for requests to the gateway for objects that are not stored, and never for a HIT.
func (s site) hitsForMiss() bool {
	return s.Facts.Scripts && len(s.disks) > 0 && ptr.Deref(s.Cache.Lock.Enabled, true)
}

// waitsTwice returns true if a request waits only for firstWait for the lock in the location of its disk. If POST is
// cached, the result is false, because a POST could not be sent to another location.
func (s store) waitsTwice(l diskLocation) bool {
	return s.hitsForMiss() && l.name == onDisk && !l.sliced && !slices.Contains(s.Cache.Methods, "POST")
}

// hitForMissMaps returns the gateway's maps for hit-for-miss.
func (m gatewayMaps) hitForMissMaps() conf.Block {
	if !m.hitsForMiss() {
		return nil
	}
	ifNoted := func(variable conf.Expression, otherwise, noted conf.Literal) conf.Directive {
		return conf.Map(notedVariable, variable,
			conf.D("default", otherwise), conf.Row(conf.Literal("1"), noted))
	}
	return conf.Block{
		ifNoted(afterMiss, "", toUnlocked), ifNoted(afterWait, toWaiting, toUnlocked), ifNoted(afterSecondWait, "", toPass),
		conf.Map(stateInRequest, hitForMissKey,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?:"+misses+")$"), m.mark()+objectOfRequest)),
		conf.Map("$request_time", missVariable,
			conf.D("volatile"), conf.D("default", conf.Literal(stateWaited)),
			conf.Row(conf.Expression("~^0[.](?:0|1[0-4])"), conf.Literal(stateMiss))),
		m.unstorable(),
	}
}

// missStates returns the rows for a MISS in the map for stateVariable. The values depend on the location that asks.
// The request for a later slice has none of these values, as without hit-for-miss.
func (m gatewayMaps) missStates() conf.Block {
	if !m.hitsForMiss() {
		return nil
	}
	first, miss := "$", conf.Expression(missVariable)
	if m.hasSlices() {
		first, miss = ":(?:first)?$", stateMiss
	}
	from := func(location string, state conf.Argument) conf.Directive {
		return conf.Row(conf.Expression("~.:MISS:GET:"+location+first), state)
	}
	return conf.Block{
		from(fromDisk, miss), from(fromWaiting, conf.Literal(stateLate)), from(fromUnlocked, conf.Literal(stateUnlocked)),
	}
}

// missPlaces returns the rows for a MISS in the map for byStateVariable.
func (m gatewayMaps) missPlaces() conf.Block {
	if !m.hitsForMiss() {
		return nil
	}
	return conf.Block{
		conf.Row(conf.Literal(stateMiss), conf.Expression(afterMiss)),
		conf.Row(conf.Literal(stateWaited), conf.Expression(afterWait)),
		conf.Row(conf.Literal(stateLate), conf.Expression(afterSecondWait)),
	}
}

// unstorable returns the map for unstorableVariable. The map reads the same values as nginx, in nginx's order:
// X-Accel-Expires, then Cache-Control, then Expires, then cache.valid. A map cannot tell whether the date in Expires
// has passed. nginx stores no response with X-Accel-Redirect.
//
// An error of the server does not show whether the object may be stored. The same applies to an error that a client
// provokes by its own headers, address or pace, or by a range that the object does not have. The exception is a 416
// for the first slice, because an empty object does not have the first slice.
func (m gatewayMaps) unstorable() conf.Directive {
	redirect := "$upstream_http_x_accel_redirect"
	if m.hasSlices() {
		redirect = redirectVariable
	}
	known := conf.Expression("$status:"+redirect+variesVariable+partialVariable+agedVariable) +
		m.cookies() + conf.Expression(":"+lifetimeVariable+"|$upstream_http_expires|"+controlVariable)
	valid := []string{"304"}
	for _, v := range m.Cache.Valid {
		for _, status := range v.Status {
			valid = append(valid, strconv.Itoa(int(status)))
		}
	}
	const nothing, may, mayNot = conf.Literal(""), conf.Literal("0"), conf.Literal("1")
	const control = "~*^[0-9]+::[^|]*[|][^|]*[|].*"
	return conf.Map(known, unstorableVariable,
		conf.D("default", mayNot),
		conf.Row(conf.Expression("~^416:"+whole), mayNot),
		conf.Row(conf.Expression("~^(?:5|40[0678]|41[1-7]|42[15689]|431)"), nothing),
		conf.Row(conf.Expression("~^[0-9]+::0"), mayNot),
		conf.Row(conf.Expression("~^[0-9]+::[1-9@]"), may),
		conf.Row(conf.Expression(control+"(?:no-store|no-cache|private)"), mayNot),
		conf.Row(conf.Expression(control+"s-maxage=0*[1-9]"), may),
		conf.Row(conf.Expression(control+"s-maxage="), mayNot),
		conf.Row(conf.Expression(control+"max-age=0*[1-9]"), may),
		conf.Row(conf.Expression(control+"max-age="), mayNot),
		conf.Row(conf.Expression("~^[0-9]+::[^|]*[|][^|]"), nothing),
		conf.Row(conf.Expression("~^(?:"+strings.Join(valid, "|")+")::"), may))
}

// sentBack returns the gateway's locations that send a request back to the cache.
func (g gateway) sentBack() conf.Block {
	if !g.hitsForMiss() {
		return nil
	}
	return conf.Block{redirectsTo(toUnlocked, unlocked), redirectsTo(toWaiting, waiting), redirectsTo(toPass, pass)}
}

// withoutLock returns the location unlocked.
func (s store) withoutLock(own diskLocation) conf.Block {
	if !s.hitsForMiss() {
		return nil
	}
	own.name, own.next, own.unlocked, own.more = unlocked, uncached, true, nil
	return conf.Block{s.cached(own)}
}
