package cache

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// upstreamName is the upstream block's name, as it stands in proxy_pass.
const upstreamName = "origin"

// upstreams are the groups of the origin's servers.
func (r renderer) upstreams() conf.Block {
	var block conf.Block
	if slices.ContainsFunc(r.Spec.Origin.Servers, resolves) || len(r.peers()) > 0 {
		block = resolver()
	}
	return slices.Concat(block, r.upstream(upstreamName), r.againUpstream(), r.fleetUpstreams())
}

// resolver has nginx ask the agent for the addresses of names, and only the agent: nginx asks several servers in turn.
// After an error, nginx asks again when the time-out is over.
func resolver() conf.Block {
	return conf.Block{
		conf.D("resolver", conf.Literal(layout.ResolverAddress), conf.Literal("ipv6=off")),
		conf.D("resolver_timeout", conf.Literal("2s")),
	}
}

// upstream is a group of the origin's servers. With "zone" and "resolve", nginx starts before a name exists and follows
// its changes. A plain server line with an unknown name would keep nginx from starting.
func (r renderer) upstream(name string) conf.Block {
	origin := r.Spec.Origin
	servers := conf.Block{conf.D("zone", conf.Literal(name), conf.Literal("1m"))}
	for _, s := range origin.Servers {
		servers = append(servers, r.originServer(s))
	}
	for _, s := range r.lastly() {
		servers = append(servers, r.originServer(s, "backup", "max_fails=0"))
	}
	return conf.Block{conf.B("upstream", conf.Literals(name), append(servers, r.originKeepalive()...)...)}
}

// originServer is the line of a server.
func (r renderer) originServer(s v1alpha1.OriginServer, parameters ...string) conf.Directive {
	host, port := Address(s, r.Spec.Origin.Scheme, r.Namespace, r.ClusterDomain)
	args := []conf.Argument{conf.Literal(fmt.Sprintf("%s:%d", host, port))}
	if weight := ptr.Deref(s.Weight, 1); weight != 1 {
		args = append(args, conf.Literal(fmt.Sprintf("weight=%d", weight)))
	}
	args = append(args, conf.Literals(parameters...)...)
	if s.Backup {
		args = append(args, conf.Literal("backup"))
	}
	if resolves(s) {
		args = append(args, conf.Literal("resolve"))
	}
	return conf.D("server", args...)
}

// resolves is true for a server with a name, which may have several addresses.
func resolves(s v1alpha1.OriginServer) bool {
	_, err := netip.ParseAddr(ptr.Deref(s.Host, ""))
	return s.Service != nil || err != nil
}

// originKeepalive are the directives about idle connections.
func (r renderer) originKeepalive() conf.Block {
	keepalive := r.Spec.Origin.Keepalive
	return conf.Block{
		conf.D("keepalive", conf.Int(ptr.Deref(keepalive.Connections, 0))),
		conf.D("keepalive_requests", conf.Int(ptr.Deref(keepalive.Requests, 0))),
		conf.D("keepalive_timeout", conf.Time(effective.Duration(keepalive.Timeout))),
	}
}

// Address is where a server of the origin listens.
func Address(s v1alpha1.OriginServer, scheme, namespace, clusterDomain string) (host string, port int32) {
	if s.Service != nil {
		return naming.ServiceHost(s.Service.Name, ptr.Deref(s.Service.Namespace, namespace), clusterDomain), s.Service.Port
	}
	port = 80
	if scheme == "https" {
		port = 443
	}
	return ptr.Deref(s.Host, ""), ptr.Deref(s.Port, port)
}

// toOrigin are the directives that every request of a client needs on its way to the origin, cached or not.
func (r renderer) toOrigin() conf.Block {
	block := append(conf.Block{conf.D("proxy_http_version", conf.Literal("1.1"))}, r.forwarded()...)
	return append(block, r.reachOrigin()...)
}

// reachOrigin are the directives about timeouts, retries and TLS of requests to the origin.
func (r renderer) reachOrigin() conf.Block {
	origin := r.Spec.Origin
	block := conf.Block{
		conf.D("proxy_connect_timeout", conf.Time(effective.Duration(origin.Timeouts.Connect))),
		conf.D("proxy_read_timeout", conf.Time(effective.Duration(origin.Timeouts.Read))),
		conf.D("proxy_send_timeout", conf.Time(effective.Duration(origin.Timeouts.Send))),
		conf.D("proxy_next_upstream", failures(origin.Retries.When)...),
		conf.D("proxy_next_upstream_tries", conf.Int(ptr.Deref(origin.Retries.Tries, 0))),
		conf.D("proxy_next_upstream_timeout", conf.Time(effective.Duration(origin.Retries.Timeout))),
		// What is not cached passes through at the pace of the slower side and not through files on the node's own disk.
		// Cached responses are exempt.
		conf.D("proxy_max_temp_file_size", conf.Literal("0")),
		conf.D("proxy_request_buffering", conf.OnOff(false)),
		conf.D("client_max_body_size", conf.Literal("0")),
		passDate(),
	}
	if origin.Scheme == "https" {
		block = append(block, r.originTLS()...)
	}
	return block
}

// passDate leaves the origin's Date in a response, which tells a client how old the response is. nginx would send the
// present time, and it sends no Age.
func passDate() conf.Directive { return conf.D("proxy_pass_header", conf.Literal("Date")) }

// systemCAs is where nginx's Debian and Alpine images keep the authorities that are trusted by default.
const systemCAs = "/etc/ssl/certs/ca-certificates.crt"

func (r renderer) originTLS() conf.Block {
	tls := ptr.Deref(r.Spec.Origin.TLS, v1alpha1.OriginTLS{})
	block := conf.Block{
		conf.D("proxy_ssl_server_name", conf.OnOff(true)),
		conf.D("proxy_ssl_name", conf.Literal(effective.ServerName(r.Spec.Origin))),
	}
	if !ptr.Deref(tls.Verify, true) {
		return append(block, conf.D("proxy_ssl_verify", conf.OnOff(false)))
	}
	authorities := systemCAs
	if r.caFile != "" {
		authorities = r.caFile
	}
	return append(block,
		conf.D("proxy_ssl_verify", conf.OnOff(true)),
		conf.D("proxy_ssl_verify_depth", conf.Literal("4")),
		conf.D("proxy_ssl_trusted_certificate", conf.Literal(authorities)))
}

// nginxWords maps the API's enums to nginx's words.
var nginxWords = map[string]string{
	"Error": "error", "Timeout": "timeout", "InvalidHeader": "invalid_header", "Updating": "updating",
	"HTTP403": "http_403", "HTTP404": "http_404", "HTTP429": "http_429",
	"HTTP500": "http_500", "HTTP502": "http_502", "HTTP503": "http_503", "HTTP504": "http_504",
}

// failures are the arguments of proxy_next_upstream and proxy_cache_use_stale; none means "off".
func failures[T ~string](reasons []T) []conf.Argument {
	if len(reasons) == 0 {
		return conf.Literals("off")
	}
	args := make([]conf.Argument, len(reasons))
	for i, r := range reasons {
		args[i] = conf.Literal(nginxWords[string(r)])
	}
	return args
}
