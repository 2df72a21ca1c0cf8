package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// CachePolicy says what is cached, under which key and for how long. The Cache-Control, Expires and X-Accel-Expires of
// the origin take precedence over valid. A response with Set-Cookie or Vary: * is not cached, nor is a response to a
// request with Authorization. A request with Cookie is served like any other. An origin whose responses depend on
// cookies must send Cache-Control: private or no-store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.methods) || !('POST' in self.methods) || (has(self.key) && 'Method' in self.key)",message="methods: POST needs Method in cache.key, or a GET would be answered with the response to a POST",fieldPath=".methods"
type CachePolicy struct {
	// key is the set of request parts that identifies an object (proxy_cache_key) and whose hash chooses the disk. The
	// parts are Scheme, Host (without port), RequestURI (as the client sent it), URI (normalised), Args (with URI only)
	// and Method. Exactly one of RequestURI and URI is required. The order does not matter. Default Scheme, Host and
	// RequestURI.
	// +optional
	// +listType=set
	// +kubebuilder:default={Scheme,Host,RequestURI}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="('RequestURI' in self) != ('URI' in self)",message="key: give either RequestURI or URI: without them all objects would be one"
	// +kubebuilder:validation:XValidation:rule="!('Args' in self) || 'URI' in self",message="key: Args goes with URI only: RequestURI has the arguments in it"
	Key []KeyPart `json:"key,omitempty"`

	// valid says how long responses are fresh, by status code, if the origin does not say (proxy_cache_valid). At most 16
	// entries. Default 1h for 200, 206 and 301, and 1m for 404.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={{status:{200,206,301},for:"1h"},{status:{404},for:"1m"}}
	// +kubebuilder:validation:MaxItems=16
	Valid []Validity `json:"valid,omitempty"`

	// useStale is the set of reasons to serve a stale object instead of an error (proxy_cache_use_stale). An empty set
	// means never. Default Error, Timeout, Updating, HTTP500, HTTP502, HTTP503 and HTTP504.
	// +optional
	// +listType=set
	// +kubebuilder:default={Error,Timeout,Updating,HTTP500,HTTP502,HTTP503,HTTP504}
	// +kubebuilder:validation:MaxItems=11
	UseStale []StaleReason `json:"useStale,omitempty"`

	// lock lets one request at a time fetch an object while others wait for it.
	// +optional
	// +kubebuilder:default={}
	Lock CacheLock `json:"lock,omitempty"`

	// backgroundUpdate refreshes a stale object in the background while it is served (proxy_cache_background_update). It
	// takes effect only if useStale contains Updating. Default true.
	// +optional
	// +kubebuilder:default=true
	BackgroundUpdate *bool `json:"backgroundUpdate,omitempty"`

	// revalidate asks the origin with If-Modified-Since and If-None-Match whether a stale object has changed
	// (proxy_cache_revalidate). Default true.
	// +optional
	// +kubebuilder:default=true
	Revalidate *bool `json:"revalidate,omitempty"`

	// minUses is how many requests it takes for an object to be cached (proxy_cache_min_uses). Range 1 to 1000, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinUses *int32 `json:"minUses,omitempty"`

	// methods are the request methods whose responses are cached (proxy_cache_methods). nginx always adds GET and HEAD.
	// Requests with other methods go to the origin, with bodies of any size. A body is not part of the key, so add POST
	// only if the URI alone determines the response. Default GET and HEAD.
	// +optional
	// +listType=set
	// +kubebuilder:default={GET,HEAD}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Methods []CacheMethod `json:"methods,omitempty"`

	// statusHeaders adds X-Cache and X-Cache-Disk to responses. X-Cache is HIT, MISS, EXPIRED, STALE, UPDATING,
	// REVALIDATED, BYPASS, or UNCACHED if the disk could not be used. X-Cache is missing if nothing was looked up. Default
	// true.
	// +optional
	// +kubebuilder:default=true
	StatusHeaders *bool `json:"statusHeaders,omitempty"`

	// nodeHeader adds X-Cache-Node, the name of the pod, to responses. It tells clients how many pods there are and which
	// pod served them. Default false.
	// +optional
	NodeHeader bool `json:"nodeHeader,omitempty"`
}

// KeyPart is a part of the cache key.
//
// +kubebuilder:validation:Enum=Scheme;Host;RequestURI;URI;Args;Method
type KeyPart string

// The parts of a cache key.
const (
	KeyScheme     KeyPart = "Scheme"
	KeyHost       KeyPart = "Host"
	KeyRequestURI KeyPart = "RequestURI"
	KeyURI        KeyPart = "URI"
	KeyArgs       KeyPart = "Args"
	KeyMethod     KeyPart = "Method"
)

// Validity is how long responses with certain status codes are fresh.
type Validity struct {
	// status is the set of status codes, 1 to 32 codes from 100 to 599.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Status []StatusCode `json:"status"`

	// for is how long such a response is fresh. 0s means that it is not cached.
	// +required
	For Duration `json:"for"`
}

// StatusCode is an HTTP status code.
//
// +kubebuilder:validation:Minimum=100
// +kubebuilder:validation:Maximum=599
type StatusCode int32

// StaleReason is a reason to serve a stale object, named after a parameter of proxy_cache_use_stale.
//
// +kubebuilder:validation:Enum=Error;Timeout;InvalidHeader;Updating;HTTP403;HTTP404;HTTP429;HTTP500;HTTP502;HTTP503;HTTP504
type StaleReason string

// CacheMethod is a request method whose responses can be cached.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST
type CacheMethod string

// CacheLock becomes proxy_cache_lock, proxy_cache_lock_timeout and proxy_cache_lock_age.
type CacheLock struct {
	// enabled lets only one request at a time ask the origin for an object that is not in the cache. Default true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// timeout is how long a request waits for another request's response. Then it goes to the origin itself and is not
	// cached. Default 5s.
	// +optional
	// +kubebuilder:default="5s"
	Timeout Duration `json:"timeout,omitempty"`

	// age is the time after which one more request may ask the origin if the first is not done. Default 5s.
	// +optional
	// +kubebuilder:default="5s"
	Age Duration `json:"age,omitempty"`
}

// IOMode says whether threads or workers read and write cache files.
type IOMode string

// The modes.
const (
	IOAuto    IOMode = "Auto"
	IOThreads IOMode = "Threads"
	IODirect  IOMode = "Direct"
)

// IO tunes how nginx reads and writes cache files.
type IO struct {
	// mode says who reads and writes cache files: Threads, Direct or Auto. Threads is the disk's thread pool (aio
	// threads). Direct is the worker itself (aio off). Direct costs less if reads never wait; a read that waits stops the
	// whole worker. Auto is Direct if no disk is an HDD and all caches fit into pod.resources.limits.memory beside what
	// nginx needs. Otherwise Auto is Threads. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	// +kubebuilder:validation:Enum=Auto;Threads;Direct
	Mode IOMode `json:"mode,omitempty"`

	// readAhead tells the kernel that files larger than 128Ki are read sequentially, which doubles the disk's read-ahead
	// (read_ahead, posix_fadvise). 0 switches it off. Range 0 to 1Gi, default 1Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="readAhead: must be from 0 to 1Gi"
	ReadAhead *resource.Quantity `json:"readAhead,omitempty"`

	// asyncWrite lets the disk's thread pool write responses to the disk too (aio_write). Default true.
	// +optional
	// +kubebuilder:default=true
	AsyncWrite *bool `json:"asyncWrite,omitempty"`

	// sendfileMaxChunk bounds what one sendfile call sends, so that one fast connection cannot occupy a worker
	// (sendfile_max_chunk). Between two chunks, the pages of an object may leave the page cache and must then be read
	// again. Range 16Ki to 1Gi. Default 2Mi, as in nginx.
	// +optional
	// +kubebuilder:default="2Mi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="sendfileMaxChunk: must be from 16Ki to 1Gi"
	SendfileMaxChunk *resource.Quantity `json:"sendfileMaxChunk,omitempty"`
}
