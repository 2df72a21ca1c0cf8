package v1alpha1

// Origin defines the servers from which the cache fetches objects that it does not have. It becomes an upstream block
// and proxy_ directives of nginx.
//
// +kubebuilder:validation:XValidation:rule="self.scheme == 'https' || !has(self.tls)",message="tls: only for scheme https: set scheme to https or remove tls",fieldPath=".tls"
type Origin struct {
	// scheme is the protocol to the origin: http (default) or https.
	// +optional
	// +kubebuilder:default=http
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`

	// servers are the origin's servers, 1 to 32, tried by weighted round robin.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.exists(s, !s.backup)",message="servers: at least one must not be a backup"
	Servers []OriginServer `json:"servers"`

	// hostHeader is the Host header that the origin gets. Unset means the host name in the client's request. At most 259
	// characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=259
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,251}[a-zA-Z0-9])?(:[0-9]{1,5})?$')",message="hostHeader: must be a DNS name or an IPv4 address, with a port if need be, such as www.example.com or www.example.com:8443"
	HostHeader *string `json:"hostHeader,omitempty"`

	// keepalive keeps connections to the origin open for the next request.
	// +optional
	// +kubebuilder:default={}
	Keepalive Keepalive `json:"keepalive,omitempty"`

	// timeouts bound how long nginx waits for the origin.
	// +optional
	// +kubebuilder:default={}
	Timeouts OriginTimeouts `json:"timeouts,omitempty"`

	// retries says when and how often nginx tries another server, and when it asks a server again.
	// +optional
	// +kubebuilder:default={}
	Retries Retries `json:"retries,omitempty"`

	// tls says how nginx verifies an https origin.
	// +optional
	TLS *OriginTLS `json:"tls,omitempty"`

	// fallbackConcurrency is the maximum number of requests in each pod that fall back to the origin at the same time
	// (limit_conn). A request falls back if its own disk cannot serve it: the disk has failed, or all its threads are busy
	// and its queue is full. A request that another disk can answer does not count. Above the limit, a request gets a
	// stale copy, if the origin allows stale copies on errors, and otherwise 503 with Retry-After. So a failure of the
	// disks does not become a failure of the origin. One limit applies to the requests on all ports, including requests
	// that come through other pods. Range 1 to 65536, default 128.
	// +optional
	// +kubebuilder:default=128
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	FallbackConcurrency *int32 `json:"fallbackConcurrency,omitempty"`
}

// OriginServer is one server of the origin: a Service of this cluster, or a host.
//
// +kubebuilder:validation:XValidation:rule="has(self.service) != has(self.host)",message="give either service or host, not both and not neither"
// +kubebuilder:validation:XValidation:rule="!has(self.port) || has(self.host)",message="port: belongs to host; the port of a Service is service.port",fieldPath=".port"
type OriginServer struct {
	// service is a Service of this cluster.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// host is an IPv4 address or a fully qualified name, because nginx tries no search domains. The name need not exist
	// yet, and nginx follows changes of its addresses. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])+[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.]?$')",message="host: must be a fully qualified lower-case DNS name such as origin.example.com, or an IPv4 address; no port, scheme or path"
	Host *string `json:"host,omitempty"`

	// port is the host's port. Range 1 to 65535. Default 80 for http and 443 for https.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// weight determines the server's share of the requests, in relation to the weights of the other servers. Range 1 to
	// 1000, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`

	// backup makes nginx ask this server only when the other servers fail. Default false.
	// +optional
	// +kubebuilder:default=false
	Backup bool `json:"backup,omitempty"`
}

// ServiceReference names a Service.
type ServiceReference struct {
	// name is the Service's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name: must be the name of a Service"
	Name string `json:"name"`

	// namespace is the Service's namespace. Default the namespace of the CacheNode.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace: must be the name of a namespace"
	Namespace *string `json:"namespace,omitempty"`

	// port is the Service's port. Requests to a headless Service go to the port of its endpoints instead. Range 1 to
	// 65535.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// Keepalive becomes keepalive, keepalive_requests and keepalive_timeout of the upstream.
type Keepalive struct {
	// connections is the number of idle connections to the origin that each worker keeps. Range 1 to 4096, default 32.
	// +optional
	// +kubebuilder:default=32
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Connections *int32 `json:"connections,omitempty"`

	// requests is the number of requests after which a connection is closed. Range 1 to 1000000, default 1000.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Requests *int32 `json:"requests,omitempty"`

	// timeout is how long an idle connection stays open. Keep it below the origin's own timeout. Default 60s.
	// +optional
	// +kubebuilder:default="60s"
	Timeout Duration `json:"timeout,omitempty"`
}

// OriginTimeouts become proxy_connect_timeout, proxy_read_timeout and proxy_send_timeout.
type OriginTimeouts struct {
	// connect bounds the time to establish a connection. More than 0s, at most 75s, default 5s.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) > duration('0s') && duration(self) <= duration('75s'))",message="connect: must be more than 0s and at most 75s"
	Connect Duration `json:"connect,omitempty"`

	// read bounds the time between two reads of a response. More than 0s, default 60s.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="read: must be more than 0s: every request would fail at once"
	Read Duration `json:"read,omitempty"`

	// send bounds the time between two writes of a request. More than 0s, default 60s.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="send: must be more than 0s: every request would fail at once"
	Send Duration `json:"send,omitempty"`
}

// Retries becomes proxy_next_upstream and its limits. A request that is not idempotent is never sent twice.
//
// For ten seconds after an address has failed, nginx asks all other addresses first. It still asks the failed address
// if all other addresses have failed too. So a request that the origin never answers does not make other requests fail.
// Each address of a Service or of a host name counts as a server.
type Retries struct {
	// when is the set of failures after which nginx tries the next server. Default Error and Timeout.
	// +optional
	// +listType=set
	// +kubebuilder:default={Error,Timeout}
	// +kubebuilder:validation:MaxItems=10
	When []OriginFailure `json:"when,omitempty"`

	// tries is the maximum number of servers that nginx asks for a request, including the first server. 0 means all
	// servers. If no server has sent a byte and no time-out has passed, nginx sends a request without a body to all
	// servers again, up to five times. This helps with a Service, which may have several endpoints behind its single
	// address: another endpoint may answer. 1 means that each request is sent once. Range 0 to 32, default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	Tries *int32 `json:"tries,omitempty"`

	// timeout is the time within which nginx may begin to ask another server. 0s means no limit. Default 10s.
	// +optional
	// +kubebuilder:default="10s"
	Timeout Duration `json:"timeout,omitempty"`
}

// OriginFailure is a way in which the origin can fail, named after a parameter of proxy_next_upstream.
//
// +kubebuilder:validation:Enum=Error;Timeout;InvalidHeader;HTTP403;HTTP404;HTTP429;HTTP500;HTTP502;HTTP503;HTTP504
type OriginFailure string

// OriginTLS says how nginx verifies an https origin.
//
// +kubebuilder:validation:XValidation:rule="self.verify || !has(self.caBundle)",message="caBundle: has no effect with verify false: remove one of them",fieldPath=".caBundle"
type OriginTLS struct {
	// verify makes nginx check the origin's certificate (proxy_ssl_verify). Default true.
	// +optional
	// +kubebuilder:default=true
	Verify *bool `json:"verify,omitempty"`

	// caBundle contains the certificate authorities that may sign the origin's certificate. Unset means the authorities
	// of the nginx image.
	// +optional
	CABundle *CABundle `json:"caBundle,omitempty"`

	// serverName is the name for SNI and for the check of the certificate. Default the name in origin.hostHeader. If
	// hostHeader is unset, the default is the host name of the servers, if all servers have the same host name. An IP
	// address does not count as a name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serverName: must be a lower-case DNS name such as origin.example.com"
	ServerName *string `json:"serverName,omitempty"`
}

// CABundle is a key of a Secret or ConfigMap in the CacheNode's namespace that holds PEM certificates.
//
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="give either secret or configMap, not both and not neither"
type CABundle struct {
	// secret is a key of a Secret.
	// +optional
	Secret *KeyReference `json:"secret,omitempty"`

	// configMap is a key of a ConfigMap.
	// +optional
	ConfigMap *KeyReference `json:"configMap,omitempty"`
}

// KeyReference names a key of a Secret or ConfigMap.
type KeyReference struct {
	// name is the object's name. While the object does not exist, the CacheNode waits: its condition Accepted is False
	// with the reason ReferenceNotFound.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in the object's data. Default ca.crt.
	// +optional
	// +kubebuilder:default=ca.crt
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}
