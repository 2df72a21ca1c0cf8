package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// CachePolicy says what is cached, under which key and for how long. The Cache-Control, Expires and X-Accel-Expires of
// the origin take precedence over valid. A response with Set-Cookie or Vary: * is not cached, nor is a response to a
// request with Authorization. A request with Cookie is served like any other. An origin whose responses depend on
// cookies must send Cache-Control: private or no-store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.query) || !has(self.key) || 'RequestURI' in self.key || 'Args' in self.key",message="query: needs RequestURI or Args in cache.key, or no argument reaches the origin",fieldPath=".query"
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

	// query says which arguments of a URL count. The others are in no key and reach no origin. Unset means that all count.
	// +optional
	Query *Query `json:"query,omitempty"`

	// bypass says which requests go to the origin past all caches. Their responses are not stored.
	// +optional
	Bypass *Bypass `json:"bypass,omitempty"`

	// valid says how long responses are fresh, by status code, if the origin does not say (proxy_cache_valid). At most 16
	// entries. Default 1h for 200, 206 and 301, and 1m for 404.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={{status:{200,206,301},for:"1h"},{status:{404},for:"1m"}}
	// +kubebuilder:validation:MaxItems=16
	Valid []Validity `json:"valid,omitempty"`

	// staleWhileRevalidate is how long after its end an object is served while a request renews it (RFC 5861), unless the
	// origin's Cache-Control says so itself. Objects with must-revalidate, proxy-revalidate or s-maxage are never served
	// stale. 0s to 8760h, default 30s. Applies to responses from then on.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('8760h')",message="staleWhileRevalidate: must be at most 8760h, a year"
	StaleWhileRevalidate Duration `json:"staleWhileRevalidate,omitempty"`

	// staleIfError is how long after its end an object is served instead of an error of the origin: no answer, or one with
	// the status 500, 502, 503 or 504 (RFC 5861). The origin's own Cache-Control and the exceptions count as for
	// staleWhileRevalidate. 0s to 8760h, default 24h. Applies to responses from then on.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('8760h')",message="staleIfError: must be at most 8760h, a year"
	StaleIfError Duration `json:"staleIfError,omitempty"`

	// useStale is deprecated: use staleWhileRevalidate and staleIfError. Without Updating, staleWhileRevalidate counts as
	// 0s. Its status codes are the ones that staleIfError is for; without any other reason, staleIfError counts as 0s.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=11
	UseStale []StaleReason `json:"useStale,omitempty"`

	// lock lets one request at a time fetch an object while others wait for it.
	// +optional
	// +kubebuilder:default={}
	Lock CacheLock `json:"lock,omitempty"`

	// backgroundUpdate serves a stale object also to the request that renews it, within the time of staleWhileRevalidate
	// (proxy_cache_background_update). Otherwise that request waits for the origin, and the others get the stale object.
	// The renewal holds up no other request of the client's connection. It has no effect on objects in slices. Default
	// false.
	// +optional
	// +kubebuilder:default=false
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

	// slice has large objects fetched and stored in parts of one size, so that a request for a range waits only for the
	// parts in the range (the directive slice). All parts are on the disk of the object. Unset means that objects are
	// fetched whole. After a change, objects are fetched again: the stored ones are not found any more.
	//
	// It is for origins that answer ranges with a strong ETag. Any other object is fetched whole; each request for such an
	// object that is not in memory asks the origin once more, unless the origin ignores ranges and the request begins in
	// the first part. If an object changes, a response that would mix old and new parts ends early, and later ones too,
	// until the old parts have expired.
	// +optional
	Slice *Slice `json:"slice,omitempty"`

	// statusHeaders adds X-Cache and X-Cache-Disk to responses, and X-Cache-Hop with routing.mode Sharded. X-Cache is HIT,
	// MISS, EXPIRED, STALE, UPDATING, REVALIDATED, BYPASS for requests past the caches, or UNCACHED if neither the disk of
	// the key nor another disk could serve the request. Default true.
	// +optional
	// +kubebuilder:default=true
	StatusHeaders *bool `json:"statusHeaders,omitempty"`

	// nodeHeader adds X-Cache-Node, the name of the pod, to responses. It tells clients how many pods there are and which
	// pod served them. Default false.
	// +optional
	NodeHeader bool `json:"nodeHeader,omitempty"`
}

// Names reports whether valid names a status code.
func (c CachePolicy) Names(status StatusCode) bool {
	return slices.ContainsFunc(c.Valid, func(v Validity) bool { return slices.Contains(v.Status, status) })
}

// Query lists arguments of URLs. A name may end in *, which stands for any rest, as in utm_*. Letters' case counts. The
// order of the arguments stays as it is. Up to eight groups of neighbouring arguments are removed; with more, the rest
// counts.
//
// +kubebuilder:validation:XValidation:rule="has(self.drop) != has(self.keep)",message="give either drop or keep"
type Query struct {
	// drop are the arguments that do not count. 1 to 32, with 1024 characters together.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(x, x.size()).sum() <= 1024",message="drop: has more than 1024 characters together: shorten names, or let several begin alike and end in *"
	Drop []NamePattern `json:"drop,omitempty"`

	// keep are the only arguments that count. 1 to 32, with 1024 characters together.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(x, x.size()).sum() <= 1024",message="keep: has more than 1024 characters together: shorten names, or let several begin alike and end in *"
	Keep []NamePattern `json:"keep,omitempty"`
}

// Bypass lists what makes a request bypass the caches.
//
// +kubebuilder:validation:XValidation:rule="has(self.cookies) || has(self.headers)",message="give cookies, headers or both"
type Bypass struct {
	// cookies are names of cookies; one with any value is enough. A name may end in *, which stands for any rest. 1 to 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Cookies []NamePattern `json:"cookies,omitempty"`

	// headers are names of headers; one with any value but the empty one is enough. 1 to 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderName `json:"headers,omitempty"`
}

// NamePattern is the name of an argument or cookie, or the beginning of a name and *.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[][A-Za-z0-9_.~%-]+[*]?$')",message="must be a name of letters, digits and _ . ~ % [ ] -, and may end in *"
type NamePattern string

// Slice is how objects are divided.
type Slice struct {
	// size is the size of a part. Range 1Mi to 64Mi.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Mi')) <= 0",message="size: must be from 1Mi to 64Mi"
	Size resource.Quantity `json:"size"`
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
	// Requests for an object whose last response could not be stored do not wait for each other, if nginx has
	// ngx_http_js_module: the stock image has it, its -slim variants lack it.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// timeout is how long a request waits for another request's response. Then it goes to the origin itself and is not
	// cached. Requests that wait for an object of a disk that dies get no response one after another, until the time is
	// over. By default it is the longest time that the origin may take to answer: origin.timeouts.connect,
	// origin.timeouts.read and origin.retries.timeout together. CacheNodes from the time when the default was 5s keep it.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// age is the time after which one more request may ask the origin if the first is not done. A worker that dies holds
	// its locks for as long. Default as for timeout.
	// +optional
	Age Duration `json:"age,omitempty"`
}

// IOMode says whether threads or workers read and write cache files.
type IOMode string

// The modes.
const (
	IOAuto    IOMode = "Auto"
	IOThreads IOMode = "Threads"
	IODirect  IOMode = "Direct"
	IOWorkers IOMode = "Workers"
)

// IO tunes how nginx reads and writes cache files.
type IO struct {
	// mode says who reads and writes cache files: Threads, Direct, Workers or Auto. Threads is the disk's thread pool
	// (aio threads). Direct is the worker itself (aio off). Direct costs less if reads never wait; a read that waits
	// stops the whole worker. Workers is Direct with workersPerCPU workers for each CPU, which read into buffers and
	// send those (see sendfile). It is for disks that answer within a fraction of a millisecond; a response in progress
	// takes up to 256Ki of memory. A pod uses Threads instead while a disk
	// makes reads wait, and for ten minutes after that. Auto is Direct if no disk is an HDD and all caches fit into
	// pod.resources.limits.memory beside what nginx needs. Otherwise Auto is Workers if all disks are NVMe, there is no
	// memory tier, pod.resources.limits has cpu and memory, and 64Mi of memory for each CPU are left; a CacheNode that
	// had another mode before never gets Workers. Otherwise Auto is Threads.
	// Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	// +kubebuilder:validation:Enum=Auto;Threads;Direct;Workers
	Mode IOMode `json:"mode,omitempty"`

	// workersPerCPU is the number of nginx's workers for each CPU of pod.resources.limits, with mode Workers. More workers
	// read more at once; each takes some memory. Other modes have one worker for each CPU. Range 1 to 16, default 4.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	WorkersPerCPU *int32 `json:"workersPerCPU,omitempty"`

	// sendfile makes the workers of mode Workers send files from the page cache (sendfile on), instead of reading them
	// into buffers. That is faster for objects of about 1Mi and more, and slower for smaller ones. Other modes always
	// use sendfile, and so does mode Workers with cache.slice. Default false.
	// +optional
	Sendfile *bool `json:"sendfile,omitempty"`

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
