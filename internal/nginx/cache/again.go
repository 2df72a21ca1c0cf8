package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// again is the gateway's location that sends a request to the origin again. fetchAgain is the same for requests of
	// the location fetch. failed is the location for requests that are not sent again.
	again      = "@again"
	fetchAgain = "@fetch_again"
	failed     = "@failed"
	// againVariable contains the location again or failed. againInFetch contains the location fetchAgain or failed.
	againVariable = "$again"
	againInFetch  = "$again_in_fetch"
	// orUnready contains the location broken if nginx has no address of any server of the origin, and the location
	// failed otherwise. A pod that has just started may not know the origin's addresses yet. Other pods then treat that
	// pod as a pod that does not answer.
	orUnready = "$or_unready"
	// once is the gateway's location for requests with unknown methods. onceVariable is 1 for such requests.
	once         = "@once"
	onceVariable = "$is_sent_once"
	// timesAgain is the maximum number of times that a request is sent again. Including the first time, a single address
	// gets a request up to six times. If one of a Service's three endpoints goes away, fewer than one in 700 requests
	// goes to that endpoint all six times.
	timesAgain = 5
)

// nginx counts failures by address, but the address of a Kubernetes Service can lead to several endpoints. If the
// origin does not answer a request, nginx marks all addresses to which the request was sent as failed, although they
// answer other requests. Also, another endpoint behind the single address of a Service could have answered.
//
// Therefore each address is in the upstream a second time, as a backup that never counts as failed. So nginx asks a
// failed address last, after all other addresses. If the spec has backups of its own, that is not possible, because
// nginx has only one group of backups. In that case, a request goes to the upstream againName if no server is left
// for it. A request that is safe to send twice, and got no byte of a response, also goes to this upstream, whatever
// servers the spec has. A request that timed out is not tried again. Otherwise the client would wait for a second
// timeout, and a slow origin would get a second request.
//
// A request with a body is not sent to againName, because nginx passes the body through without keeping it, and so
// cannot send it again. But nginx itself asks another server if the first one closed the connection, even after the
// whole request was sent. It does not do so for the methods POST, PATCH and LOCK. It treats every other method as
// idempotent (RFC 9110, section 9.2.2), including methods that it does not know. Therefore requests with unknown
// methods go to a location that asks no other server.

// lastly returns the servers that nginx asks after all others have failed.
func (b backend) lastly() []v1alpha1.OriginServer {
	servers := b.Servers
	if b.hasBackups() || len(servers) == 1 && !resolves(servers[0]) { // nginx always asks a single address
		return nil
	}
	return servers
}

func (b backend) hasBackups() bool {
	return slices.ContainsFunc(b.Servers, func(s v1alpha1.OriginServer) bool { return s.Backup })
}

// triesAgain returns true if a request is sent again after an error in which no byte of a response arrived.
func (b backend) triesAgain() bool {
	retries := b.Retries
	return ptr.Deref(retries.Tries, 0) != 1 && slices.Contains(retries.When, "Error")
}

// asksAgain returns true if the gateway contains the location again.
func (b backend) asksAgain() bool { return b.triesAgain() || b.hasBackups() }

// againName returns the name of the upstream for requests that are sent again. nginx never marks a server of this
// upstream as failed.
func (b backend) againName() string { return b.name + "_again" }

// urlAgain returns the URL of the upstream againName.
func (b backend) urlAgain() conf.Expression {
	if b.variable != "" {
		return conf.Expression(b.Scheme + "://${" + string(b.variable[1:]) + "}_again")
	}
	return conf.Expression(b.Scheme + "://" + b.againName())
}

// againUpstream returns the upstream for requests that are sent again. For one server directive, nginx asks each
// address only once, and a name can have a single address. So the upstream has at least as many lines as the number of
// times that a request is sent again.
func (b backend) againUpstream() conf.Block {
	if !b.asksAgain() {
		return nil
	}
	servers := b.Servers
	copies := (timesAgain + len(servers) - 1) / len(servers)
	upstream := conf.Block{conf.D("zone", conf.Literal(b.againName()), conf.Literal(fmt.Sprintf("%dm", copies)))}
	for range copies {
		for _, s := range servers {
			upstream = append(upstream, b.originServer(s, "max_fails=0"))
		}
	}
	upstream = append(upstream, b.comingServers()...)
	return conf.Block{conf.B("upstream", conf.Literals(b.againName()), append(upstream, b.originKeepalive()...)...)}
}

// againMaps returns the maps that decide which requests are sent again. If nginx found no server to ask,
// $upstream_addr ends with the name of the upstream.
func (m gatewayMaps) againMaps() conf.Block {
	if !m.backend.asksAgain() {
		return nil
	}
	const state = "$request_method:$http_content_length$http_transfer_encoding:$upstream_response_time/" +
		"$upstream_bytes_received/$upstream_addr"
	rows := conf.Block{
		conf.D("default", conf.Literal(failed)),
		// The request was sent to no server. Before " : ", $upstream_addr lists the pods and disks that did not have the
		// object.
		conf.Row(conf.Expression("~^[^:]*:0*:.*/(?:.* : )?"+m.backend.name+"$"), conf.Literal(again)),
	}
	if m.backend.triesAgain() {
		// The last try took less than ten seconds and got no byte.
		rows = append(rows, conf.Row(
			conf.Expression(`~^(?:GET|HEAD|OPTIONS|PUT|DELETE):0*:(?:.* )?[0-9][.][0-9]+/(?:[0-9, :]* )?0/`),
			conf.Literal(again)))
	}
	return conf.Block{conf.Map(state, againVariable, rows...), m.unreadyMap(), conf.Map(againVariable, againInFetch,
		conf.D("default", conf.Literal(failed)), conf.Row(conf.Literal(again), conf.Literal(fetchAgain)))}
}

// toOnce makes the gateway's first location pass requests with an unknown method on to the location once.
func toOnce() conf.Block {
	return conf.Block{
		conf.D("error_page", conf.Literal("422"), conf.Literal("="), conf.Literal(once)),
		ifSet(onceVariable, conf.D("return", conf.Literal("422"))),
	}
}

// onceMap returns the map for onceVariable.
func onceMap() conf.Directive {
	return conf.Map("$request_method", onceVariable,
		conf.D("default", conf.Literal("1")),
		conf.Row(conf.Expression("~^(?:GET|HEAD|OPTIONS|TRACE|PUT|DELETE|POST|PATCH|LOCK)$"), conf.Literal("")))
}

// onceLocation returns the location once, for requests that are sent to the origin once.
func (g gateway) onceLocation() conf.Directive {
	return location(once, append(g.orRejected(),
		conf.D("proxy_next_upstream", conf.Literal("off")), conf.D("proxy_pass", g.backend.url()))...)
}

// orAgain makes a location of the gateway pass a request that failed with 502 on to the location in the variable.
func (g gateway) orAgain(variable string) conf.Block {
	if !g.backend.asksAgain() {
		return nil
	}
	return conf.Block{conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Expression(variable))}
}

// unready makes a location close the connection if no server of the origin has an address.
func (g gateway) unready() conf.Block {
	if !g.backend.asksAgain() || !g.isSharded() {
		return nil
	}
	return conf.Block{
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Expression(orUnready)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
	}
}

// unreadyMap returns the map for orUnready. If nginx found no server to ask, $upstream_addr ends with the name of the
// upstream.
func (m gatewayMaps) unreadyMap() conf.Directive {
	return conf.Map("$upstream_addr", orUnready,
		conf.D("default", conf.Literal(failed)),
		conf.Row(conf.Expression("~(?:^|[ ,])"+m.backend.name+"(?:_again)?$"), conf.Literal(broken)))
}

// repeats is the part of the gateway that sends requests again.
type repeats struct{ gateway }

// locations returns the locations that send a request again.
func (a repeats) locations() conf.Block {
	if !a.backend.asksAgain() {
		return nil
	}
	when := conf.Literal("error")
	if !a.backend.triesAgain() { // a request comes here if no server was left for it: nginx asks one server
		when = "off"
	}
	ask := append(conf.Block{
		conf.D("proxy_next_upstream", when),
		conf.D("proxy_next_upstream_tries", conf.Int(timesAgain)),
		conf.D("proxy_pass", a.backend.urlAgain()),
	}, a.unready()...)
	return conf.Block{
		location(again, slices.Concat(a.notes(), ask)...),
		location(fetchAgain, slices.Concat(a.unchanged(), a.notes(), ask)...),
		location(failed, conf.D("return", conf.Literal("502"))),
	}
}
