package cache

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
)

const (
	// certificateID is the ID of the certificate for the name that a client asks for in its TLS handshake (SNI).
	certificateID = "$certificate_id"
	// isMisdirected is 1 if the name in the TLS handshake and the host of the request belong to different listeners. A
	// client may send such a request, because it reuses a connection of HTTP/2 for all names in a certificate. Another
	// listener may have other settings, so the client has to open another connection (RFC 9110, section 15.5.20;
	// GEP-3567).
	isMisdirected = "$is_misdirected"
)

// isSecure returns true if a listener of a Gateway has TLS.
func (r routed) isSecure() bool { return len(r.Routes.Certificates()) > 0 }

// secureMaps returns the maps that select the listener by the name in the TLS handshake, for ports with TLS.
func (r routed) secureMaps() (block conf.Block) {
	if !r.isSecure() {
		return nil
	}
	certificates := conf.Block{conf.D("default", conf.Literal(layout.NoCertificate))}
	misdirected := conf.Block{conf.D("default", conf.Literal(""))}
	for _, l := range r.listeners() {
		if l.Certificate == "" {
			continue
		}
		of := func(name string) conf.Expression { return conf.Expression(fmt.Sprintf("$%s_%d", name, l.PodPort)) }
		asked, named, id := of("listener_of_handshake"), of("listener_of_host"), of("certificate_id")
		ids := conf.Block{conf.D("default", conf.Literal(layout.NoCertificate))}
		for i, other := range r.Routes.Listeners {
			if other.PodPort == l.PodPort {
				ids = append(ids, conf.Row(conf.Int(i), conf.Literal(other.Certificate)))
			}
		}
		block = append(block,
			conf.Map("$ssl_server_name", asked, r.byHost(l.PodPort)...), conf.Map("$host", named, r.byHost(l.PodPort)...),
			conf.Map(asked, id, ids...),
			conf.Map(asked+" "+named, of("is_misdirected"), conf.D("default", conf.Literal("1")),
				conf.Row(conf.Literal(`~^(?<listener_of_both>[0-9]+) \k<listener_of_both>\z`), conf.Literal(""))))
		certificates = append(certificates, conf.Row(conf.Int(l.PodPort), id))
		misdirected = append(misdirected, conf.Row(conf.Int(l.PodPort), of("is_misdirected")))
	}
	return append(block, conf.Map("$server_port", certificateID, certificates...),
		conf.Map("$server_port", isMisdirected, misdirected...))
}

// byHost returns the rows that map a host to the position of the listener of a port that accepts it.
func (r routed) byHost(podPort int32) conf.Block {
	rows, other := conf.Block{conf.D("hostnames")}, conf.D("default", conf.Literal(""))
	for i, l := range r.Routes.Listeners {
		switch {
		case l.PodPort != podPort:
		case l.Host == "":
			other = conf.D("default", conf.Int(i))
		default:
			rows = append(rows, conf.Row(routemap.HostKey(l.Host), conf.Int(i)))
		}
	}
	return append(rows, other)
}

// secure returns the TLS directives of the server for clients. nginx reads a certificate when a client asks for it. It
// notices a renewed file within ten seconds, without a reload.
func (r routed) secure() conf.Block {
	if !r.isSecure() {
		return nil
	}
	file := conf.Expression(layout.GatewayCertificate(certificateID))
	block := append(conf.Block{
		conf.D("ssl_certificate", file), conf.D("ssl_certificate_key", file),
		conf.D("ssl_certificate_cache",
			conf.Literal("max=4096"), conf.Literal("inactive=1h"), conf.Literal("valid=10s")),
	}, tlsSettings()...)
	// A session may be resumed at any port of a server, with the trust that its first handshake has earned. So a client
	// could trust one team's listener by another team's certificate.
	for i, d := range block {
		if d.Name == "ssl_session_cache" {
			block[i] = conf.D("ssl_session_cache", conf.Literal("off"))
		}
	}
	if tls := r.Spec.Listen.TLS; tls == nil { // otherwise, the CacheNode's own setting applies
		block = append(block, conf.D("http2", conf.OnOff(true)))
	}
	return block
}
