package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// altSvc tells clients of HTTP/3, over TLS only.
	altSvc = "$alt_svc"
	// ciphers are those of TLS 1.2: with forward secrecy and authenticated encryption, as all of TLS 1.3 are.
	ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20"
	// forwardedFor is X-Forwarded-For with the address of the load balancer, as a client's own address is in it already.
	forwardedFor = "$forwarded_for"
)

// listeners are the listen directives of the default server.
func (r renderer) listeners() conf.Block {
	listen := func(port *int32, more ...string) conf.Directive {
		options := []conf.Argument{conf.Int(ptr.Deref(port, 0)), conf.Literal("default_server")}
		if ptr.Deref(r.Spec.Listen.ReusePort, true) {
			options = append(options, conf.Literal("reuseport"))
		}
		if r.addressSource() == v1alpha1.AddressProxyProtocol {
			more = append(more, "proxy_protocol")
		}
		return conf.D("listen", append(options, conf.Literals(more...)...)...)
	}
	block := conf.Block{listen(r.Spec.Listen.Port)}
	if tls := r.Spec.Listen.TLS; tls != nil {
		block = append(block, listen(tls.Port, "ssl"))
		if tls.HTTP3 {
			// Each worker needs its own socket, as the packets of a connection must reach the same worker.
			block = append(block, conf.D("listen",
				conf.Int(ptr.Deref(tls.Port, 0)), conf.Literal("default_server"), conf.Literal("quic"), conf.Literal("reuseport")))
		}
	}
	return block
}

// named are the listen directives of a server that is not the default. Parameters of a socket may stand only once.
func named(listen conf.Block) conf.Block {
	var block conf.Block
	for _, d := range listen {
		args := []conf.Argument{d.Args[0]}
		for _, a := range d.Args[1:] {
			if slices.Contains(conf.Literals("ssl", "quic", "proxy_protocol"), a) {
				args = append(args, a)
			}
		}
		block = append(block, conf.D("listen", args...))
	}
	return block
}

// protocols are the versions of HTTP beside HTTP/1.
func (r renderer) protocols() conf.Block {
	if tls := r.Spec.Listen.TLS; tls != nil && ptr.Deref(tls.HTTP2, true) {
		return conf.Block{conf.D("http2", conf.OnOff(true))}
	}
	return nil
}

func (r renderer) speaksHTTP3() bool { return r.Spec.Listen.TLS != nil && r.Spec.Listen.TLS.HTTP3 }

// listenerTLS is what clients see over TLS.
func (r renderer) listenerTLS() conf.Block {
	if r.Spec.Listen.TLS == nil {
		return nil
	}
	return conf.Block{
		conf.D("ssl_certificate", conf.Literal(layout.ListenerCertificate(r.Facts.Certificate))),
		conf.D("ssl_certificate_key", conf.Literal(layout.ListenerKey(r.Facts.Certificate))),
		conf.D("ssl_protocols", conf.Literal("TLSv1.2"), conf.Literal("TLSv1.3")),
		conf.D("ssl_ciphers", conf.Literal(ciphers)),
		conf.D("ssl_session_cache", conf.Literal("shared:listener:10m")),
		conf.D("ssl_session_timeout", conf.Literal("1d")),
		conf.D("ssl_session_tickets", conf.OnOff(false)),
	}
}

// doorMaps are the maps that the listeners need.
func (r renderer) doorMaps() conf.Block {
	var block conf.Block
	if r.speaksHTTP3() {
		value := fmt.Sprintf(`h3=":%d"; ma=86400`, ptr.Deref(r.Spec.Service.HTTPSPort, 0))
		block = append(block, conf.B("map", []conf.Argument{conf.Expression("$https"), conf.Expression(altSvc)},
			conf.D("default", conf.Literal("")), conf.D("on", conf.Literal(value))))
	}
	if r.addressSource() == v1alpha1.AddressXForwardedFor {
		block = append(block, conf.B("map",
			[]conf.Argument{conf.Expression("$http_x_forwarded_for"), conf.Expression(forwardedFor)},
			conf.Row(conf.Literal(""), conf.Expression("$realip_remote_addr")),
			conf.D("default", conf.Expression("$http_x_forwarded_for, $realip_remote_addr"))))
	}
	return block
}

// addressSource is "" if a client's address is that of its connection.
func (r renderer) addressSource() v1alpha1.AddressSource {
	if r.Spec.Listen.ClientAddress == nil {
		return ""
	}
	return r.Spec.Listen.ClientAddress.Source
}

// clientAddress has nginx take a client's address from what a trusted load balancer says.
func (r renderer) clientAddress() conf.Block {
	var header conf.Literal
	switch r.addressSource() {
	case v1alpha1.AddressProxyProtocol:
		header = "proxy_protocol"
	case v1alpha1.AddressXForwardedFor:
		header = "X-Forwarded-For"
	default:
		return nil
	}
	var block conf.Block
	for _, network := range r.Spec.Listen.ClientAddress.TrustedCIDRs {
		block = append(block, conf.D("set_real_ip_from", conf.Literal(network)))
	}
	return append(block, conf.D("real_ip_header", header), conf.D("real_ip_recursive", conf.OnOff(true)))
}

// forwardedFor is the X-Forwarded-For that the origin gets.
func (r renderer) forwardedFor() conf.Expression {
	if r.door == toPeers { // the other pod has added the client's address
		return "$http_x_forwarded_for"
	}
	if r.addressSource() == v1alpha1.AddressXForwardedFor {
		return forwardedFor
	}
	return "$proxy_add_x_forwarded_for"
}

// rangesAsTheyAre keeps a location from compressing what a client wants a part of. nginx would compress instead of
// cutting the range out, and of an object in slices, only those in the range are there.
func (r renderer) rangesAsTheyAre() conf.Block {
	if !r.Spec.Listen.Gzip.Enabled {
		return nil
	}
	return conf.Block{
		conf.B("if", []conf.Argument{conf.Expression("($http_range)")}, conf.D("gzip", conf.OnOff(false))),
	}
}

// gzip compresses responses. The caches have them as the origin sent them.
func (r renderer) gzip() conf.Block {
	g := r.Spec.Listen.Gzip
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
