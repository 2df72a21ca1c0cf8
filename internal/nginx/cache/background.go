package cache

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// background and renewer are the gateway's locations for a renewal in the background, toRenewer and inBackground the
	// paths of their mirror requests.
	background   = "@background"
	renewer      = "@renewer"
	toRenewer    = "/.cachenode-renewer"
	inBackground = "/.cachenode-background"

	// renewingZone counts such renewals by key.
	renewingZone = "renewing"

	// Values of stateHeader, see renewal.go.
	stateBackground = "BACKGROUND"
	stateRenewer    = "RENEWER"

	// askedState is the value of stateHeader, and askedFormer that of formerHeader, with renewals in the background.
	askedState  = "$asked_state"
	askedFormer = "$asked_former"
	// renewedKey is the key of the copy, without the generation of its disk. A mirror request has another path.
	renewedKey = "$renewed_key"
)

// With cache.backgroundUpdate, nginx gives the client the stale copy and renews it in a subrequest. Until that is over,
// it reads no other request from the client's connection. So the subrequest gets an answer from the gateway at once,
// which is not stored, and the gateway renews the copy in a mirror request:
//
//	background ─▶ renewer ─▶ expired
//
// nginx notes for a copy which request renews it, and a background request renews it even if there is another. The
// location renewer takes so much time that the client's request has mostly ended, and the mirror request is noted
// instead: the requests that come next get the stale copy without asking the gateway. If it has not ended, they ask the
// gateway, and limit_conn lets one renewal of the copy run at a time.

// renewsInBackground returns true if the gateway renews stale copies by itself.
func (s site) renewsInBackground() bool {
	return len(s.disks) > 0 && ptr.Deref(s.Cache.BackgroundUpdate, false)
}

// backgroundMaps returns the maps that say what a renewal in the background asks the gateway for, and which key the
// copy has. nginx counts the bytes of a client's request, and none for its subrequests.
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
	if m.fillsFromDisks() { // has these maps
		return block
	}
	return append(block, formerParts()...)
}

// backgrounds is the gateway's part that renews copies after clients have got them.
type backgrounds struct{ gateway }

// locations returns the gateway's locations.
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

// mirrors returns a location of the gateway that answers at once, and not with anything to store.
func mirrors(name, path string, more ...conf.Directive) conf.Directive {
	return location(name, append(more,
		conf.D("mirror", conf.Literal(path)), conf.D("mirror_request_body", conf.OnOff(false)),
		// A connection takes no other request until the mirror request is done, so each serves one request only.
		conf.D("keepalive_timeout", conf.Literal("0")),
		conf.D("if_modified_since", conf.Literal("off")),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Literal("0")),
		conf.D("empty_gif"))...)
}

// mirror returns a location of the gateway that asks the gateway, by its URL, for something else.
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
