package cache

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// altSvc is the variable that announces HTTP/3 to clients. It is empty without TLS.
	altSvc = "$alt_svc"
	// ciphers are the ciphers for TLS 1.2. They have forward secrecy and authenticated encryption, like all ciphers of
	// TLS 1.3.
	ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20"
	// forwardedFor is X-Forwarded-For with the address of the load balancer added. The header already contains the
	// client's own address.
	forwardedFor = "$forwarded_for"
	// clientsZone counts the connections of each client.
	clientsZone = "clients"
)

// listeners is the part of the configuration with the sockets to which clients connect.
type listeners struct{ node }

// socket is a socket on which a server listens, with its parameters for the default server.
type socket struct {
	port       *int32
	parameters []string
}

func (l listeners) sockets() []socket {
	tcp := func(port *int32, more ...string) socket {
		parameters := []string{"default_server"}
		if ptr.Deref(l.Spec.Listen.ReusePort, true) {
			parameters = append(parameters, "reuseport")
		}
		if l.addressSource() == v1alpha1.AddressProxyProtocol {
			more = append(more, "proxy_protocol")
		}
		return socket{port, append(parameters, more...)}
	}
	list := []socket{tcp(l.Spec.Listen.Port)}
	if tls := l.Spec.Listen.TLS; tls != nil {
		list = append(list, tcp(tls.Port, "ssl"))
		if tls.HTTP3 {
			// Each worker needs its own socket, as the packets of a connection must reach the same worker.
			list = append(list, socket{tls.Port, []string{"default_server", "quic", "reuseport"}})
		}
	}
	return list
}

// listen returns the listen directives of a server, except the parameters in without.
func (l listeners) listen(without ...string) (block conf.Block) {
	for _, s := range l.sockets() {
		parameters := slices.DeleteFunc(s.parameters, func(p string) bool { return slices.Contains(without, p) })
		block = append(block, conf.D("listen",
			append([]conf.Argument{conf.Int(ptr.Deref(s.port, 0))}, conf.Literals(parameters...)...)...))
	}
	return block
}

// ofDefault returns the listen directives of the default server.
func (l listeners) ofDefault() conf.Block { return l.listen() }

// ofNamed returns the listen directives of any other server. nginx accepts the parameters of a socket only once.
func (l listeners) ofNamed() conf.Block { return l.listen("default_server", "reuseport") }

// protocols returns the directive that switches HTTP/2 on, if the spec has TLS and HTTP/2.
func (l listeners) protocols() conf.Block {
	if tls := l.Spec.Listen.TLS; tls != nil && ptr.Deref(tls.HTTP2, true) {
		return conf.Block{conf.D("http2", conf.OnOff(true))}
	}
	return nil
}

func (n node) speaksHTTP3() bool { return n.Spec.Listen.TLS != nil && n.Spec.Listen.TLS.HTTP3 }

// listenerTLS returns the TLS directives for clients.
func (l listeners) listenerTLS() conf.Block {
	if l.Spec.Listen.TLS == nil {
		return nil
	}
	return append(conf.Block{
		conf.D("ssl_certificate", conf.Literal(layout.ListenerCertificate(l.Facts.Certificate))),
		conf.D("ssl_certificate_key", conf.Literal(layout.ListenerKey(l.Facts.Certificate))),
	}, tlsSettings()...)
}

// tlsSettings returns the TLS directives for clients, except those that name a certificate.
func tlsSettings() conf.Block {
	return conf.Block{
		conf.D("ssl_protocols", conf.Literal("TLSv1.2"), conf.Literal("TLSv1.3")),
		conf.D("ssl_ciphers", conf.Literal(ciphers)),
		conf.D("ssl_session_cache", conf.Literal("shared:listener:10m")),
		conf.D("ssl_session_timeout", conf.Literal("1d")),
		conf.D("ssl_session_tickets", conf.OnOff(false)),
	}
}

// doorMaps returns the maps that the listeners need.
func (l listeners) doorMaps() conf.Block {
	var block conf.Block
	if l.speaksHTTP3() {
		value := fmt.Sprintf(`h3=":%d"; ma=86400`, ptr.Deref(l.Spec.Service.HTTPSPort, 0))
		block = append(block, conf.Map("$https", altSvc,
			conf.D("default", conf.Literal("")), conf.D("on", conf.Literal(value))))
	}
	if l.addressSource() == v1alpha1.AddressXForwardedFor {
		block = append(block, conf.Map("$http_x_forwarded_for", forwardedFor,
			conf.Row(conf.Literal(""), conf.Expression("$realip_remote_addr")),
			conf.D("default", conf.Expression("$http_x_forwarded_for, $realip_remote_addr"))))
	}
	return block
}

// addressSource returns the source of a client's address; "" if the address of its connection is the client's
// address.
func (n node) addressSource() v1alpha1.AddressSource {
	if n.Spec.Listen.ClientAddress == nil {
		return ""
	}
	return n.Spec.Listen.ClientAddress.Source
}

// clientAddress makes nginx take a client's address from a trusted load balancer.
func (l listeners) clientAddress() conf.Block {
	var header conf.Literal
	switch l.addressSource() {
	case v1alpha1.AddressProxyProtocol:
		header = "proxy_protocol"
	case v1alpha1.AddressXForwardedFor:
		header = "X-Forwarded-For"
	default:
		return nil
	}
	var block conf.Block
	for _, network := range l.Spec.Listen.ClientAddress.TrustedCIDRs {
		block = append(block, conf.D("set_real_ip_from", conf.Literal(network)))
	}
	return append(block, conf.D("real_ip_header", header), conf.D("real_ip_recursive", conf.OnOff(true)))
}

// rangesAsTheyAre keeps a location from compressing the response to a request with a range. nginx would compress the
// whole response instead of cutting the range out of it. If the object is in slices, nginx has fetched only the
// slices of the range.
func (n node) rangesAsTheyAre() conf.Block {
	if !n.Spec.Listen.Gzip.Enabled {
		return nil
	}
	return conf.Block{
		conf.B("if", []conf.Argument{conf.Expression("($http_range)")}, conf.D("gzip", conf.OnOff(false))),
	}
}

// gzip returns the directives that compress responses. The caches store responses as the origin sent them.
func (l listeners) gzip() conf.Block {
	g := l.Spec.Listen.Gzip
	if !g.Enabled {
		return nil
	}
	block := conf.Block{
		conf.D("gzip", conf.OnOff(true)),
		conf.D("gzip_vary", conf.OnOff(true)),
		conf.D("gzip_proxied", conf.Literal("any")),
		conf.D("gzip_comp_level", conf.Int(ptr.Deref(g.Level, 1))),
	}
	if g.MinSize != nil {
		block = append(block, conf.D("gzip_min_length", conf.Size(g.MinSize.Value())))
	}
	if len(g.Types) > 0 {
		types := make([]conf.Argument, len(g.Types))
		for i, t := range g.Types {
			types[i] = conf.Literal(t)
		}
		block = append(block, conf.D("gzip_types", types...))
	}
	return block
}

// clientTimeouts returns the directives that bound the time that a client may take for a request. A connection with an
// incomplete request occupies a slot that another client could use.
func (l listeners) clientTimeouts() conf.Block {
	const header, body = "10s", "30s"
	return conf.Block{
		conf.D("client_header_timeout", conf.Time(effective.Duration(cmp.Or(l.Spec.Listen.HeaderTimeout, header)))),
		conf.D("client_body_timeout", conf.Time(effective.Duration(cmp.Or(l.Spec.Listen.BodyTimeout, body)))),
	}
}

// clientsZone returns the zone that counts the connections of each client, if the spec limits them.
func (l listeners) clientsZone() conf.Block {
	if l.Spec.Listen.MaxConnectionsPerClient == nil {
		return nil
	}
	return conf.Block{conf.D("limit_conn_zone",
		conf.Expression("$binary_remote_addr"), conf.Literal("zone="+clientsZone+":10m"))}
}

// clientLimit returns the directives that limit the connections of each client.
func (l listeners) clientLimit() conf.Block {
	if l.Spec.Listen.MaxConnectionsPerClient == nil {
		return nil
	}
	return conf.Block{
		conf.D("limit_conn", conf.Literal(clientsZone), conf.Int(*l.Spec.Listen.MaxConnectionsPerClient)),
		conf.D("limit_conn_status", conf.Literal("429")),
	}
}
