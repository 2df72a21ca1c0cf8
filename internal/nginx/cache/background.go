package cache

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// background and renewer are the gateway's locations for a renewal in the background. toRenewer and inBackground are
	// the paths of the mirror requests that these locations send.
	background   = "@background"
	renewer      = "@renewer"
	toRenewer    = "/.cachenode-renewer"
	inBackground = "/.cachenode-background"

	// renewingZone counts the renewals in the background, by key.
	renewingZone = "renewing"

	// Values of stateHeader, see renewal.go.
	stateBackground = "BACKGROUND"
	stateRenewer    = "RENEWER"

	// askedState is the value of stateHeader if the gateway renews copies in the background. askedFormer is then the
	// value of formerHeader.
	askedState  = "$asked_state"
	askedFormer = "$asked_former"
	// renewedKey is the key of the copy, without the generation of its disk. It is in a variable, because a mirror
	// request has another path.
	renewedKey = "$renewed_key"
)

// With cache.backgroundUpdate, nginx sends the client the stale copy and renews the copy in a subrequest. Until the
// subrequest ends, nginx reads no other request from the client's connection. Therefore the gateway answers the
// subrequest at once, with a response that is not stored. It renews the copy in a mirror request:
//
//	background ─▶ renewer ─▶ expired
//
// nginx records for each copy which request renews it. A background request renews the copy even if another request
// is already renewing it. The location renewer takes some time, in which the client's request usually ends. nginx
// then records the mirror request instead, and the next requests get the stale copy without asking the gateway. If
// the client's request has not ended, the next requests ask the gateway, and limit_conn allows one renewal of the
// copy at a time.

// renewsInBackground returns true if the gateway renews stale copies in the background.
func (s site) renewsInBackground() bool {
	return len(s.disks) > 0 && ptr.Deref(s.Cache.BackgroundUpdate, false)
}

// backgroundMaps returns the maps for renewals in the background. They define what a renewal requests from the
// gateway, and the key of the copy. The maps recognize a subrequest by its $request_length of 0, because nginx counts
// the bytes of a client's request, but not the bytes of its subrequests.
func (m gatewayMaps) backgroundMaps() conf.Block {
	if !m.renewsInBackground() {
		return nil
	}
	of := conf.Expression(stateVariable + " $request_length")
	subrequest := conf.Expression("~^(?:" + stateExpired + "|" + statePatient + ") 0")
	if m.hasSlices() { // later slices come in subrequests, too
		of, subrequest = of+" "+slicedVariable, subrequest+" no"
	}
	former := conf.Argument(conf.Literal(""))
	if m.fillsFromDisks() {
		former = conf.Expression(formerVariable)
	}
	block := conf.Block{
		conf.Map(of, askedState,
			conf.D("volatile"), conf.D("default", conf.Expression(stateVariable)),
			conf.Row(subrequest+"$", conf.Literal(stateBackground))),
		conf.Map(askedState, askedFormer,
			conf.D("volatile"), conf.D("default", former),
			conf.Row(conf.Literal(stateBackground),
				conf.Expression(gatewayDisk+" $request_method ")+m.schemeInKey()+" $host")),
		conf.D("limit_conn_zone", conf.Expression(renewedKey), conf.Literal("zone="+renewingZone+":1m")),
	}
	if m.fillsFromDisks() { // fillFromDisks has added these maps
		return block
	}
	return append(block, formerParts()...)
}

// backgrounds is the part of the gateway that renews copies after clients have received them.
type backgrounds struct{ gateway }

// locations returns the gateway's locations for renewals in the background.
func (b backgrounds) locations() conf.Block {
	if !b.renewsInBackground() {
		return nil
	}
	renewal := slices.Concat(b.cacheOf(formerDisk, conf.Expression(renewedKey)), b.validities(false), b.notSliced("no"),
		conf.Block{
			conf.D("limit_conn", conf.Literal(renewingZone), conf.Literal("1")),
			conf.D("limit_conn_log_level", conf.Literal("info")),
			conf.D("proxy_read_timeout", conf.Time(b.LongestFetch())),
			conf.D("proxy_next_upstream", conf.Literal("off")),
			conf.D("proxy_cache_revalidate", conf.OnOff(ptr.Deref(b.Cache.Revalidate, true))),
			conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Expires")...),
			conf.D("proxy_no_cache",
				conf.Expression(variesVariable), conf.Expression(sharedVariable), conf.Expression(agedVariable),
				conf.Expression(partialVariable), conf.Expression("$upstream_http_x_accel_redirect")),
		}, b.diskIO(formerDisk))
	key, gateway := set(renewedKey, b.keyInGateway()), b.entry.url()
	return conf.Block{
		mirrors(background, toRenewer), mirror(gateway, toRenewer, conf.Literal(stateRenewer)),
		mirrors(renewer, inBackground, key), mirror(gateway, inBackground, conf.Expression(absentOrExpired), renewal...),
	}
}

// mirrors returns a location of the gateway that answers at once, with a response that is not stored. It also sends a
// mirror request to the path.
func mirrors(name, path string, more ...conf.Directive) conf.Directive {
	return location(name, append(more,
		conf.D("mirror", conf.Literal(path)), conf.D("mirror_request_body", conf.OnOff(false)),
		// A connection takes no other request until the mirror request has ended, so each connection serves only one
		// request.
		conf.D("keepalive_timeout", conf.Literal("0")),
		conf.D("if_modified_since", conf.Literal("off")),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Literal("0")),
		conf.D("empty_gif"))...)
}

// mirror returns a location of the gateway that sends the request to the gateway's own URL once more, with another
// value of stateHeader.
func mirror(gateway conf.Expression, path string, state conf.Argument, more ...conf.Directive) conf.Directive {
	return exactly(path, append(conf.Block{
		conf.D("internal"),
		conf.D("proxy_pass", gateway+"$request_uri"),
		conf.D("proxy_pass_request_body", conf.OnOff(false)),
		conf.D("proxy_ignore_client_abort", conf.OnOff(true)),
		setHeader("Host", conf.Expression("$http_host")),
		setHeader("Connection", conf.Literal("")),
		setHeader("Content-Length", conf.Literal("")),
		setHeader(stateHeader, state),
	}, more...)...)
}
