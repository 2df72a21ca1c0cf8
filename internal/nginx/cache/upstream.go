package cache

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// ownBackend is the name of the backend of the CacheNode's own site.
const ownBackend = "origin"

// backend describes the servers from which a site's objects come.
type backend struct {
	v1alpha1.Origin
	// name is the name of the upstream, as used in proxy_pass.
	name string
	// coming are servers that get no requests yet; see [Input].
	coming []v1alpha1.OriginServer
	// namespace is the namespace of a Service for which the spec of the origin names no namespace.
	namespace, clusterDomain string
	// variable is the variable with the name of the upstream, if requests go to different upstreams. In this case, name is
	// a regular expression for the names of the upstreams. variable is "" if all requests go to one upstream.
	variable conf.Expression
	// authorities is the file with the authorities that sign the servers' certificates; "" means the authorities in the
	// image.
	authorities string
}

// url returns the URL of the upstream.
func (b backend) url() conf.Expression { return conf.Expression(b.Scheme+"://") + b.upstreamName() }

// upstreamName returns the name of the upstream as an expression.
func (b backend) upstreamName() conf.Expression { return cmp.Or(b.variable, conf.Expression(b.name)) }

// upstreams returns the upstreams with the origin's servers. The upstreams of routes are made elsewhere; see routed.
func (b backend) upstreams() conf.Block {
	if b.variable != "" {
		return nil
	}
	return append(b.upstream(), b.againUpstream()...)
}

// resolves returns true if nginx must resolve the name of a server.
func (b backend) resolves() bool {
	return b.variable != "" || slices.ContainsFunc(b.Servers, resolves) || slices.ContainsFunc(b.coming, resolves)
}

// comingServers returns the server directives for the servers that get no requests yet. nginx keeps their addresses
// when the next configuration has them without "down".
func (b backend) comingServers() (block conf.Block) {
	for _, s := range b.coming {
		if resolves(s) {
			s.Backup = false
			block = append(block, b.originServer(s, "down"))
		}
	}
	return block
}

// Names returns the names of the servers of the CacheNode's own origin and of the backends of routes. nginx asks the
// agent for their addresses.
func Names(r agentapi.Revision) map[string]bool {
	names := r.Routes.BackendHosts()
	own := sites.Own(r.Spec)
	for _, s := range own.Origin.Servers {
		host, _ := Address(s, own.Origin.Scheme, r.Namespace, r.ClusterDomain)
		names[host] = true
	}
	maps.DeleteFunc(names, func(host string, _ bool) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
	return names
}

// resolver makes nginx ask the agent for the addresses of names. The agent is the only name server, because nginx
// would ask several name servers in turn. After an error, nginx asks again when the timeout is over.
func resolver() conf.Block {
	return conf.Block{
		conf.D("resolver", conf.Literal(layout.ResolverAddress), conf.Literal("ipv6=off")),
		conf.D("resolver_timeout", conf.Literal("2s")),
	}
}

// upstream returns an upstream with the origin's servers. With "zone" and "resolve", nginx can start before a name
// exists, and it follows changes of the name's addresses. With only the name in a server line, nginx would not start
// while the name is unknown.
func (b backend) upstream() conf.Block {
	servers := conf.Block{conf.D("zone", conf.Literal(b.name), conf.Literal("1m"))}
	for _, s := range b.Servers {
		servers = append(servers, b.originServer(s))
	}
	for _, s := range b.lastly() {
		servers = append(servers, b.originServer(s, "backup", "max_fails=0"))
	}
	servers = append(servers, b.comingServers()...)
	return conf.Block{conf.B("upstream", conf.Literals(b.name), append(servers, b.originKeepalive()...)...)}
}

// originServer returns the server directive for a server of the origin.
func (b backend) originServer(s v1alpha1.OriginServer, parameters ...string) conf.Directive {
	host, port := Address(s, b.Scheme, b.namespace, b.clusterDomain)
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

// resolves returns true for a server with a name, which may have several addresses.
func resolves(s v1alpha1.OriginServer) bool {
	_, err := netip.ParseAddr(ptr.Deref(s.Host, ""))
	return s.Service != nil || err != nil
}

// originKeepalive returns the directives for idle connections to the origin.
func (b backend) originKeepalive() conf.Block {
	keepalive := b.Keepalive
	return conf.Block{
		conf.D("keepalive", conf.Int(ptr.Deref(keepalive.Connections, 0))),
		conf.D("keepalive_requests", conf.Int(ptr.Deref(keepalive.Requests, 0))),
		conf.D("keepalive_timeout", conf.Time(effective.Duration(keepalive.Timeout))),
	}
}

// Address returns the host and the port of a server of the origin.
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

// reachOrigin returns the directives for requests to the origin: timeouts, retries and TLS.
func (b backend) reachOrigin() conf.Block {
	block := conf.Block{
		conf.D("proxy_connect_timeout", conf.Time(effective.Duration(b.Timeouts.Connect))),
		conf.D("proxy_read_timeout", conf.Time(effective.Duration(b.Timeouts.Read))),
		conf.D("proxy_send_timeout", conf.Time(effective.Duration(b.Timeouts.Send))),
		conf.D("proxy_next_upstream", failures(b.Retries.When)...),
		conf.D("proxy_next_upstream_tries", conf.Int(ptr.Deref(b.Retries.Tries, 0))),
		conf.D("proxy_next_upstream_timeout", conf.Time(effective.Duration(b.Retries.Timeout))),
		// A response that is not cached passes through nginx as fast as the slower side allows. nginx does not buffer it in
		// files on the node's own disk. This directive does not affect cached responses.
		conf.D("proxy_max_temp_file_size", conf.Literal("0")),
		conf.D("proxy_request_buffering", conf.OnOff(false)),
		conf.D("client_max_body_size", conf.Literal("0")),
		passDate(),
	}
	if b.Scheme == "https" {
		block = append(block, b.originTLS()...)
	}
	return block
}

// passDate makes nginx keep the origin's Date in a response, so that a client can see how old the response is.
// Otherwise nginx would send the present time, and it sends no Age.
func passDate() conf.Directive { return conf.D("proxy_pass_header", conf.Literal("Date")) }

// systemCAs is the file with the authorities that nginx's Debian and Alpine images trust by default.
const systemCAs = "/etc/ssl/certs/ca-certificates.crt"

func (b backend) originTLS() conf.Block {
	tls := ptr.Deref(b.TLS, v1alpha1.OriginTLS{})
	block := conf.Block{
		conf.D("proxy_ssl_server_name", conf.OnOff(true)),
		conf.D("proxy_ssl_name", conf.Literal(effective.ServerName(b.Origin))),
	}
	if !ptr.Deref(tls.Verify, true) {
		return append(block, conf.D("proxy_ssl_verify", conf.OnOff(false)))
	}
	return append(block,
		conf.D("proxy_ssl_verify", conf.OnOff(true)),
		conf.D("proxy_ssl_verify_depth", conf.Literal("4")),
		conf.D("proxy_ssl_trusted_certificate", conf.Literal(cmp.Or(b.authorities, systemCAs))))
}

// nginxWords maps the API's enums to nginx's words.
var nginxWords = map[string]string{
	"Error": "error", "Timeout": "timeout", "InvalidHeader": "invalid_header", "Updating": "updating",
	"HTTP403": "http_403", "HTTP404": "http_404", "HTTP429": "http_429",
	"HTTP500": "http_500", "HTTP502": "http_502", "HTTP503": "http_503", "HTTP504": "http_504",
}

// failures returns the arguments of proxy_next_upstream and proxy_cache_use_stale. If there are no reasons, it returns
// "off".
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
