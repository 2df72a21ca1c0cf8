package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Listen configures how the pods accept requests from clients, for example the ports and TLS.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.tls.http3) || !self.tls.http3 || !has(self.clientAddress) || self.clientAddress.source != 'ProxyProtocol'",message="tls.http3: goes without the PROXY protocol only: set clientAddress.source to XForwardedFor or http3 to false",fieldPath=".tls.http3"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.tls.port) || !has(self.port) || self.tls.port != self.port",message="tls.port: must not be listen.port",fieldPath=".tls.port"
type Listen struct {
	// port is the port in the pod. Range 1024 to 65535, as nginx runs without privileges. It must not be 8081, 8083, 8084,
	// 8086 or 8087, which are for health, metrics and the agent. Default 8080.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(self in [8081, 8083, 8084, 8086, 8087])",message="port: 8081, 8083, 8084, 8086 and 8087 are for health, metrics and the agent: choose another"
	Port *int32 `json:"port,omitempty"`

	// reusePort gives each worker its own listening socket, and the kernel spreads connections among them (the parameter
	// reuseport of listen). Default true.
	// +optional
	// +kubebuilder:default=true
	ReusePort *bool `json:"reusePort,omitempty"`

	// maxConnections is the number of connections that a worker may have, to clients and to the origin together
	// (worker_connections). With io.mode Workers, the workers of a CPU share this number. If the pod's limit on open
	// files is too low for this number, workers have fewer connections, and status.tuning shows this. Range 256 to
	// 65536, default 16384.
	// +optional
	// +kubebuilder:default=16384
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=65536
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// maxConnectionsPerClient is the number of connections of one client address that may have a request in progress
	// (limit_conn). Further requests get 429 (Too Many Requests). Behind a load balancer that hides the clients'
	// addresses, all clients count as one. Range 1 to 65536. Unset means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxConnectionsPerClient *int32 `json:"maxConnectionsPerClient,omitempty"`

	// headerTimeout is the time that a client may take to send the header of a request (client_header_timeout). An
	// incomplete header occupies one of maxConnections. Range 1s to 1h, default 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('1h'))",message="headerTimeout: must be from 1s to 1h"
	HeaderTimeout Duration `json:"headerTimeout,omitempty"`

	// bodyTimeout is how long a client may take between two parts of a request's body (client_body_timeout). Range 1s to
	// 1h, default 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('1h'))",message="bodyTimeout: must be from 1s to 1h"
	BodyTimeout Duration `json:"bodyTimeout,omitempty"`

	// clientAddress says how the pods learn a client's address behind a load balancer or another proxy. Unset means that
	// the address of the connection counts as the client's address.
	// +optional
	ClientAddress *ClientAddress `json:"clientAddress,omitempty"`

	// gzip compresses text for clients that accept compressed responses (the module ngx_http_gzip_module).
	// +optional
	// +kubebuilder:default={}
	Gzip Gzip `json:"gzip,omitzero"`

	// tls makes the pods accept requests over TLS too. Unset means plain text only.
	// +optional
	TLS *ListenTLS `json:"tls,omitempty"`
}

// AddressSource is the place from which nginx takes the address of a client.
//
// +kubebuilder:validation:Enum=ProxyProtocol;XForwardedFor
type AddressSource string

// The sources.
const (
	AddressProxyProtocol AddressSource = "ProxyProtocol"
	AddressXForwardedFor AddressSource = "XForwardedFor"
)

// ClientAddress says how the pods learn a client's address.
type ClientAddress struct {
	// source is ProxyProtocol or XForwardedFor. With ProxyProtocol, each connection must begin with a PROXY header of
	// version 1 or 2; nginx closes other connections. With XForwardedFor, the client's address is the last address in
	// the header X-Forwarded-For that is not in trustedCIDRs.
	// +required
	Source AddressSource `json:"source"`

	// trustedCIDRs are the networks of the load balancers. nginx accepts a client address from a PROXY header or from
	// X-Forwarded-For only on connections from these networks. For other connections, the address of the connection counts
	// as the client's address. 1 to 64 networks, such as 10.0.0.0/8. +required +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	TrustedCIDRs []CIDR `json:"trustedCIDRs"`
}

// CIDR is a network such as 10.0.0.0/8 or fd00::/8.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a network such as 10.0.0.0/8"
type CIDR string

// Gzip defines which responses are compressed. The cache stores responses as the origin sent them. nginx compresses
// each response when it sends the response to a client, with Vary: Accept-Encoding and a weak ETag. A response that
// the origin has already compressed stays as it is.
type Gzip struct {
	// enabled switches the compression on. Compression costs processor time for each response, including responses from
	// the cache. Default false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// types are the media types that are compressed, in addition to text/html, which is always compressed. At most 32.
	// Default text/plain, text/css, text/xml, text/javascript, application/javascript, application/json, application/xml
	// and image/svg+xml.
	// +optional
	// +listType=set
	// +kubebuilder:default={text/plain,text/css,text/xml,text/javascript,application/javascript,application/json,application/xml,image/svg+xml}
	// +kubebuilder:validation:MaxItems=32
	Types []MediaType `json:"types,omitempty"`

	// minSize is the size below which a response is not compressed. Range 20 to 1Mi, default 1Ki.
	// +optional
	// +kubebuilder:default="1Ki"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('20')) >= 0 && quantity(string(self)).compareTo(quantity('1Mi')) <= 0",message="minSize: must be from 20 to 1Mi"
	MinSize *resource.Quantity `json:"minSize,omitempty"`

	// level is the compression level of gzip, from 1 (fastest) to 9 (smallest result). Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Level *int32 `json:"level,omitempty"`
}

// MediaType is a media type such as text/css.
//
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9!#&^_.+-]*/[a-z0-9][a-z0-9!#&^_.+-]*$')",message="must be a media type such as text/css, in small letters"
// +kubebuilder:validation:XValidation:rule="self != 'text/html'",message="text/html is always compressed: leave it out"
type MediaType string

// ListenTLS says where and how the pods accept requests over TLS, versions 1.2 and 1.3. With version 1.2, clients need
// ECDHE and an authenticated cipher.
//
// +kubebuilder:validation:XValidation:rule="!has(self.http3) || !self.http3 || !has(self.port) || self.port != 8085",message="port: with http3, 8085 is for nginx's logs, which reach the agent over UDP: choose another",fieldPath=".port"
type ListenTLS struct {
	// secretName is the name of a Secret of type kubernetes.io/tls in the CacheNode's namespace, for example a Secret
	// that cert-manager creates. A renewed certificate reaches nginx without a restart. A damaged certificate does not
	// reach nginx.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="secretName: must be the name of a Secret"
	SecretName string `json:"secretName"`

	// port is the port in the pod. Range 1024 to 65535, except the ports that are forbidden for listen.port. With http3,
	// port 8085 is forbidden too, because nginx's logs reach the agent on this port. Default 8443.
	// +optional
	// +kubebuilder:default=8443
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(self in [8081, 8083, 8084, 8086, 8087])",message="port: 8081, 8083, 8084, 8086 and 8087 are for health, metrics and the agent: choose another"
	Port *int32 `json:"port,omitempty"`

	// http2 makes the pods speak HTTP/2 with clients that ask for it. Default true.
	// +optional
	// +kubebuilder:default=true
	HTTP2 *bool `json:"http2,omitempty"`

	// http3 makes the pods speak HTTP/3 too, on the UDP port with the same number as port. The Service gets a UDP port,
	// and responses over TLS announce it to clients (Alt-Svc). A reload ends HTTP/3 connections; clients then connect
	// again. Default false.
	// +optional
	HTTP3 bool `json:"http3,omitempty"`
}
