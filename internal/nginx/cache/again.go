package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// again is the gateway's location for such requests, fetchAgain the one for those of the location fetch, and failed
	// the one for requests that are not sent again.
	again      = "@again"
	fetchAgain = "@fetch_again"
	failed     = "@failed"
	// againVariable is again or failed. againInFetch is fetchAgain or failed.
	againVariable = "$again"
	againInFetch  = "$again_in_fetch"
	// orUnready is broken for a request for which no server has an address, and else failed. So a pod that has just
	// started, and does not know the origin's addresses yet, counts as one that does not answer.
	orUnready = "$or_unready"
	// once is the gateway's location for methods of which nothing is known, onceVariable the variable that is 1 for them.
	once         = "@once"
	onceVariable = "$is_sent_once"
	// timesAgain is how often a request is sent again. With the first time, that is six times to a single address. Of a
	// Service with three endpoints one of which goes away, fewer than one in 700 requests meets that one so often.
	timesAgain = 5
)

// nginx counts failures by address and Kubernetes has Services, so the two differ about what has failed. A request that
// the origin does not answer makes nginx take all addresses that it was sent to for failed, though they answer other
// requests. And behind the one address of a Service, another endpoint would have answered.
//
// Therefore each address stands in the upstream a second time, as a backup that never counts as failed: an address that
// has failed is asked last. If the spec has backups of its own, there is no place for that, as nginx has one group of
// backups. A request for which no server was left then goes to againName. So does a request that is safe to send twice
// and that got no byte, whatever servers there are. A time-out is not tried again: it would cost a client another one,
// and a slow origin another request.
//
// A request with a body is not sent to againName, because the body passes through and cannot be sent again. But nginx
// itself asks another server if the first closed the connection, also after it has sent all, unless the method is POST,
// PATCH or LOCK. It takes every other method for idempotent (RFC 9110, section 9.2.2), and those that it does not know.
// So these have a location in which no other server is asked.

// lastly returns the lines of servers that are asked if all others have failed.
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

// triesAgain returns true if a request that got no byte is sent again.
func (b backend) triesAgain() bool {
	retries := b.Retries
	return ptr.Deref(retries.Tries, 0) != 1 && slices.Contains(retries.When, "Error")
}

// asksAgain returns true if the gateway has the location again.
func (b backend) asksAgain() bool { return b.triesAgain() || b.hasBackups() }

// againName returns the name of the upstream of requests that are sent again. None of its servers is ever taken to have
// failed.
func (b backend) againName() string { return b.name + "_again" }

// urlAgain returns the URL of that upstream.
func (b backend) urlAgain() conf.Expression { return conf.Expression(b.Scheme + "://" + b.againName()) }

// againUpstream returns the upstream of requests that are sent again. nginx asks each line once, and a name may have
// one address, so there are as many lines as a request is sent again.
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
	return conf.Block{conf.B("upstream", conf.Literals(b.againName()), append(upstream, b.originKeepalive()...)...)}
}

// againMaps returns the maps that say which requests are sent again. $upstream_addr ends with the name of the group if
// no server was left.
func (m gatewayMaps) againMaps() conf.Block {
	if !m.backend.asksAgain() {
		return nil
	}
	const state = "$request_method:$http_content_length$http_transfer_encoding:$upstream_response_time/" +
		"$upstream_bytes_received/$upstream_addr"
	rows := conf.Block{
		conf.D("default", conf.Literal(failed)),
		// Sent to no server. What comes before " : " are the pods and disks from which the object could not be filled.
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

// toOnce makes the gateway's first location pass requests with an unknown method on to their own.
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

// orAgain makes a location of the gateway send a request again if the variable says so.
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

// unreadyMap returns the map for orUnready. $upstream_addr ends with the name of the group if no server was left.
func (m gatewayMaps) unreadyMap() conf.Directive {
	return conf.Map("$upstream_addr", orUnready,
		conf.D("default", conf.Literal(failed)),
		conf.Row(conf.Expression("~(?:^|[ ,])"+m.backend.name+"(?:_again)?$"), conf.Literal(broken)))
}

// repeats is the gateway's part that sends requests again.
type repeats struct{ gateway }

// locations returns the locations that send a request again.
func (a repeats) locations() conf.Block {
	if !a.backend.asksAgain() {
		return nil
	}
	when := conf.Literal("error")
	if !a.backend.triesAgain() { // no server was left, and one is asked
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
