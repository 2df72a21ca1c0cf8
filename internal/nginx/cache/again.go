package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// againName is the upstream of requests that are sent again. None of its servers is ever taken to have failed.
	againName = "origin_again"
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

// lastly are the lines of servers that are asked if all others have failed.
func (r renderer) lastly() []v1alpha1.OriginServer {
	servers := r.Spec.Origin.Servers
	if r.hasBackups() || len(servers) == 1 && !resolves(servers[0]) { // nginx always asks a single address
		return nil
	}
	return servers
}

func (r renderer) hasBackups() bool {
	return slices.ContainsFunc(r.Spec.Origin.Servers, func(s v1alpha1.OriginServer) bool { return s.Backup })
}

// triesAgain is true if a request that got no byte is sent again.
func (r renderer) triesAgain() bool {
	retries := r.Spec.Origin.Retries
	return ptr.Deref(retries.Tries, 0) != 1 && slices.Contains(retries.When, "Error")
}

// asksAgain is true if the gateway has the location again.
func (r renderer) asksAgain() bool { return r.triesAgain() || r.hasBackups() }

// againUpstream is the upstream of requests that are sent again. nginx asks each line once, and a name may have one
// address, so there are as many lines as a request is sent again.
func (r renderer) againUpstream() conf.Block {
	if !r.asksAgain() {
		return nil
	}
	servers := r.Spec.Origin.Servers
	copies := (timesAgain + len(servers) - 1) / len(servers)
	upstream := conf.Block{conf.D("zone", conf.Literal(againName), conf.Literal(fmt.Sprintf("%dm", copies)))}
	for range copies {
		for _, s := range servers {
			upstream = append(upstream, r.originServer(s, "max_fails=0"))
		}
	}
	return conf.Block{conf.B("upstream", conf.Literals(againName), append(upstream, r.originKeepalive()...)...)}
}

// againMaps say which requests are sent again. $upstream_addr ends with the name of the group if no server was left.
func (r renderer) againMaps() conf.Block {
	if !r.asksAgain() {
		return nil
	}
	state := "$request_method:$http_content_length$http_transfer_encoding:$upstream_response_time/" +
		"$upstream_bytes_received/$upstream_addr"
	which := conf.B("map", []conf.Argument{conf.Expression(state), conf.Expression(againVariable)},
		conf.D("default", conf.Literal(failed)),
		// Sent to no server. What comes before " : " are the pods and disks from which the object could not be filled.
		conf.Row(conf.Expression("~^[^:]*:0*:.*/(?:.* : )?"+upstreamName+"$"), conf.Literal(again)))
	if r.triesAgain() {
		// The last try took less than ten seconds and got no byte.
		which.Block = append(which.Block, conf.Row(
			conf.Expression(`~^(?:GET|HEAD|OPTIONS|PUT|DELETE):0*:(?:.* )?[0-9][.][0-9]+/(?:[0-9, :]* )?0/`),
			conf.Literal(again)))
	}
	return conf.Block{which, r.unreadyMap(), conf.B("map",
		[]conf.Argument{conf.Expression(againVariable), conf.Expression(againInFetch)},
		conf.D("default", conf.Literal(failed)), conf.Row(conf.Literal(again), conf.Literal(fetchAgain)))}
}

// toOnce has the gateway's first location pass requests with an unknown method on to their own.
func toOnce() conf.Block {
	return conf.Block{
		conf.D("error_page", conf.Literal("422"), conf.Literal("="), conf.Literal(once)),
		conf.B("if", []conf.Argument{conf.Expression("(" + onceVariable + ")")}, conf.D("return", conf.Literal("422"))),
	}
}

// onceMap is the map for onceVariable.
func onceMap() conf.Directive {
	return conf.B("map", []conf.Argument{conf.Expression("$request_method"), conf.Expression(onceVariable)},
		conf.D("default", conf.Literal("1")),
		conf.Row(conf.Expression("~^(?:GET|HEAD|OPTIONS|TRACE|PUT|DELETE|POST|PATCH|LOCK)$"), conf.Literal("")))
}

// onceLocation is once.
func (r renderer) onceLocation() conf.Directive {
	return conf.B("location", conf.Literals(once), append(r.orRejected(),
		conf.D("proxy_next_upstream", conf.Literal("off")), conf.D("proxy_pass", r.origin(upstreamName)))...)
}

// orAgain has a location of the gateway send a request again if the variable says so.
func (r renderer) orAgain(variable string) conf.Block {
	if !r.asksAgain() {
		return nil
	}
	return conf.Block{conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Expression(variable))}
}

// unready has a location close the connection if no server of the origin has an address.
func (r renderer) unready() conf.Block {
	if !r.asksAgain() || !r.isSharded() {
		return nil
	}
	return conf.Block{
		conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Expression(orUnready)),
		conf.D("recursive_error_pages", conf.OnOff(true)),
	}
}

// unreadyMap is the map for orUnready. $upstream_addr ends with the name of the group if no server was left.
func (r renderer) unreadyMap() conf.Directive {
	return conf.B("map", []conf.Argument{conf.Expression("$upstream_addr"), conf.Expression(orUnready)},
		conf.D("default", conf.Literal(failed)),
		conf.Row(conf.Expression("~(?:^|[ ,])"+upstreamName+"(?:_again)?$"), conf.Literal(broken)))
}

// againLocations send a request again.
func (r renderer) againLocations() conf.Block {
	if !r.asksAgain() {
		return nil
	}
	ask := conf.Block{
		conf.D("proxy_next_upstream", conf.Literal("error")),
		conf.D("proxy_next_upstream_tries", conf.Int(timesAgain)),
		conf.D("proxy_pass", r.origin(againName)),
	}
	if !r.triesAgain() { // no server was left, and one is asked
		ask[0] = conf.D("proxy_next_upstream", conf.Literal("off"))
	}
	ask = append(ask, r.unready()...)
	return conf.Block{
		conf.B("location", conf.Literals(again), slices.Concat(r.notes(), ask)...),
		conf.B("location", conf.Literals(fetchAgain), slices.Concat(r.unchanged(), r.notes(), ask)...),
		conf.B("location", conf.Literals(failed), conf.D("return", conf.Literal("502"))),
	}
}
