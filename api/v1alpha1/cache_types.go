package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Cache defines which responses are cached, under which key and for how long. The origin's headers
// Cache-Control, Expires and X-Accel-Expires take precedence over the field valid. A response is not cached if it has
// Set-Cookie or Vary: *, or if its request has Authorization. Requests with a Cookie header are served like other
// requests. An origin whose responses depend on cookies must send Cache-Control: private or no-store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.query) || !has(self.key) || 'RequestURI' in self.key || 'Args' in self.key",message="query: needs RequestURI or Args in cache.key, or no argument reaches the origin",fieldPath=".query"
// +kubebuilder:validation:XValidation:rule="!has(self.methods) || !('POST' in self.methods) || (has(self.key) && 'Method' in self.key)",message="methods: POST needs Method in cache.key, or a GET would be answered with the response to a POST",fieldPath=".methods"
type Cache struct {
	// key is the set of request parts that identify an object (proxy_cache_key). The hash of these parts chooses the
	// disk. The parts are Scheme, Host (without port), RequestURI (as the client sent it), URI (normalised), Args (with
	// URI only) and Method. Exactly one of RequestURI and URI is required. The order does not matter. Default Scheme,
	// Host and RequestURI.
	// +optional
	// +listType=set
	// +kubebuilder:default={Scheme,Host,RequestURI}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="('RequestURI' in self) != ('URI' in self)",message="key: give either RequestURI or URI: without them all objects would be one"
	// +kubebuilder:validation:XValidation:rule="!('Args' in self) || 'URI' in self",message="key: Args goes with URI only: RequestURI has the arguments in it"
	Key []KeyPart `json:"key,omitempty"`

	CacheRules `json:",inline"`

	// valid defines how long responses are fresh, by status code, if the origin does not define this
	// (proxy_cache_valid). At most 16 entries. Default 1h for 200, 206 and 301, and 1m for 404.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={{status:{200,206,301},for:"1h"},{status:{404},for:"1m"}}
	// +kubebuilder:validation:MaxItems=16
	Valid []Validity `json:"valid,omitempty"`

	// useStale is deprecated: use staleWhileRevalidate and staleIfError. If useStale is set but does not contain
	// Updating, staleWhileRevalidate counts as 0s. If useStale is set, staleIfError applies to the status codes in
	// useStale, and always to 502, 504 and missing answers. If useStale contains nothing except Updating, staleIfError
	// counts as 0s.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=11
	UseStale []StaleReason `json:"useStale,omitempty"`

	// lock makes other requests for an object wait while one request fetches the object.
	// +optional
	// +kubebuilder:default={}
	Lock CacheLock `json:"lock,omitempty"`

	// backgroundUpdate decides what the request that starts the renewal of an expired object gets, within the time of
	// staleWhileRevalidate (proxy_cache_background_update). With true, this request gets the stale object, like all other
	// requests for the object. The renewal does not delay other requests on the client's connection. With false, this
	// request waits for the origin, and only the other requests get the stale object. The field has no effect on objects
	// in slices. Default false.
	// +optional
	// +kubebuilder:default=false
	BackgroundUpdate *bool `json:"backgroundUpdate,omitempty"`

	// revalidate asks the origin with If-Modified-Since and If-None-Match whether a stale object has changed
	// (proxy_cache_revalidate). Default true.
	// +optional
	// +kubebuilder:default=true
	Revalidate *bool `json:"revalidate,omitempty"`

	// minUses is the number of requests for an object after which the object is cached (proxy_cache_min_uses). Range 1
	// to 1000, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinUses *int32 `json:"minUses,omitempty"`

	// methods are the request methods whose responses are cached (proxy_cache_methods). nginx always adds GET and HEAD.
	// Requests with other methods go to the origin, and their bodies may have any size. A body is not part of the key,
	// so add POST only if the URI alone determines the response. Default GET and HEAD.
	// +optional
	// +listType=set
	// +kubebuilder:default={GET,HEAD}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Methods []CacheMethod `json:"methods,omitempty"`

	// slice makes nginx fetch and store large objects in parts of equal size (the directive slice). A request for a
	// range then waits only for the parts in the range. All parts of an object are on the same disk. Unset means that
	// objects are fetched whole. After a change, nginx fetches objects again, because it no longer finds the stored
	// objects.
	//
	// Use slice if the origin answers requests for ranges with a strong ETag. nginx fetches an object without a strong
	// ETag whole. Each request for such an object then first asks the origin for a part, even if the whole object is on
	// the disk. Two kinds of requests are exceptions: requests that are answered from memory and, if the origin ignores
	// ranges, requests that begin in the first part. If an object changes, responses that would mix old and new parts end
	// early, until the old parts have expired.
	// +optional
	Slice *Slice `json:"slice,omitempty"`

	// statusHeaders adds X-Cache and X-Cache-Disk to responses, and X-Cache-Hop with routing.mode Sharded. X-Cache is
	// HIT, MISS, EXPIRED, STALE, UPDATING or REVALIDATED. It is BYPASS for requests that bypass the caches, and UNCACHED
	// if neither the disk of the key nor another disk could serve the request. Default true.
	// +optional
	// +kubebuilder:default=true
	StatusHeaders *bool `json:"statusHeaders,omitempty"`

	// nodeHeader adds X-Cache-Node, the name of the pod, to responses. This header shows clients which pod answered. From
	// its values, clients can learn how many pods there are. Default false.
	// +optional
	NodeHeader bool `json:"nodeHeader,omitempty"`
}

// Names returns true if an entry of valid contains the status code.
func (c Cache) Names(status StatusCode) bool {
	return slices.ContainsFunc(c.Valid, func(v Validity) bool { return slices.Contains(v.Status, status) })
}

// Query lists the names of URL arguments to drop or to keep. A name may end in *, which matches any characters or none,
// as in utm_*. Names are case-sensitive. nginx keeps the order of the arguments. A group is a sequence of neighbouring
// arguments that do not count. nginx removes only the first eight groups of a request. The arguments in any further
// groups count.
//
// +kubebuilder:validation:XValidation:rule="has(self.drop) != has(self.keep)",message="give either drop or keep"
type Query struct {
	// drop lists the arguments that do not count. 1 to 32 names, with at most 1024 characters together.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(x, x.size()).sum() <= 1024",message="drop: has more than 1024 characters together: shorten names, or let several begin alike and end in *"
	Drop []NamePattern `json:"drop,omitempty"`

	// keep lists the only arguments that count. 1 to 32 names, with at most 1024 characters together.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(x, x.size()).sum() <= 1024",message="keep: has more than 1024 characters together: shorten names, or let several begin alike and end in *"
	Keep []NamePattern `json:"keep,omitempty"`
}

// Bypass lists the cookies and headers that make a request bypass the caches.
//
// +kubebuilder:validation:XValidation:rule="has(self.cookies) || has(self.headers)",message="give cookies, headers or both"
type Bypass struct {
	// cookies are names of cookies. A request that has one of these cookies bypasses the caches, whatever the value of
	// the cookie. A name may end in *, which matches any characters or none. 1 to 16 names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Cookies []NamePattern `json:"cookies,omitempty"`

	// headers are names of headers. A request that has one of these headers bypasses the caches, unless the value of the
	// header is empty. 1 to 16 names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderName `json:"headers,omitempty"`
}

// NamePattern is the name of an argument or cookie, or the beginning of a name followed by *.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[][A-Za-z0-9_.~%-]+[*]?$')",message="must be a name of letters, digits and _ . ~ % [ ] -, and may end in *"
type NamePattern string

// Slice defines how large objects are divided into parts.
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

// Validity defines how long responses with certain status codes are fresh.
type Validity struct {
	// status is the set of status codes, 1 to 32 codes from 100 to 599.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Status []StatusCode `json:"status"`

	// for is the time for which such a response is fresh. 0s means that the response is not cached.
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
	// Requests for an object do not wait for each other if the last response for the object could not be stored. This
	// exception needs nginx's module ngx_http_js_module, which the stock image contains and its -slim variants lack.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// timeout is the time for which a request waits for another request that fetches the same object. After this time, the
	// request goes to the origin itself, and its response is not cached. If a disk dies, the requests that wait for an
	// object of this disk fail one after another, until this time is over. The default is the longest time that the origin
	// may take to answer: the sum of origin.timeouts.connect, origin.timeouts.read and origin.retries.timeout. CacheNodes
	// that were created when the default was 5s keep 5s.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// age is the time after which one more request may ask the origin if the first request has not finished. If a worker
	// dies, its locks stay for this time. The default is the same sum as for timeout.
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
	// mode decides how nginx reads and writes cache files: Threads, Direct, Workers or Auto. With Threads, the disk's
	// thread pool reads and writes them (aio threads). With Direct, the worker itself reads and writes them (aio off).
	// Direct costs less if reads never wait, but a read that waits blocks the whole worker. Workers is like Direct, but
	// with workersPerCPU workers for each CPU. These workers read files into buffers and send the buffers (see sendfile).
	// Workers is for disks that answer within a fraction of a millisecond. With Workers, a response in progress takes up
	// to 256Ki of memory. While a disk makes reads wait, and for ten minutes after that, a pod with Workers uses Threads
	// instead. Auto means Direct if no disk is an HDD, and all caches fit into the part of pod.resources.limits.memory
	// that nginx does not need. Otherwise, Auto means Workers if all disks are NVMe, there is no memory tier,
	// pod.resources.limits contains cpu and memory, and 64Mi of memory remain for each CPU. In all other cases, Auto means
	// Threads. Auto never changes an existing CacheNode from another mode to Workers. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	// +kubebuilder:validation:Enum=Auto;Threads;Direct;Workers
	Mode IOMode `json:"mode,omitempty"`

	// workersPerCPU is the number of nginx's workers for each CPU of pod.resources.limits, with mode Workers. More
	// workers can read more at the same time, but each worker takes some memory. Other modes have one worker for each
	// CPU. Range 1 to 16, default 4.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	WorkersPerCPU *int32 `json:"workersPerCPU,omitempty"`

	// sendfile makes the workers of mode Workers send files from the page cache (sendfile on), instead of reading them
	// into buffers. This is faster for objects of about 1Mi and more, and slower for smaller objects. Other modes always
	// use sendfile, and so does mode Workers with cache.slice. Default false.
	// +optional
	Sendfile *bool `json:"sendfile,omitempty"`

	// readAhead tells the kernel that files larger than 128Ki are read sequentially, which doubles the disk's read-ahead
	// (read_ahead, posix_fadvise). 0 switches this off. Range 0 to 1Gi, default 1Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="readAhead: must be from 0 to 1Gi"
	ReadAhead *resource.Quantity `json:"readAhead,omitempty"`

	// asyncWrite makes nginx use the disk's thread pool not only to read from the disk, but also to write responses to it
	// (aio_write). Default true.
	// +optional
	// +kubebuilder:default=true
	AsyncWrite *bool `json:"asyncWrite,omitempty"`

	// sendfileMaxChunk is the maximum amount of data that one sendfile call sends (sendfile_max_chunk). This limit keeps
	// one fast connection from occupying a worker. Between two chunks, the pages of an object may leave the page cache
	// and must then be read again. Range 16Ki to 1Gi. Default 2Mi, as in nginx.
	// +optional
	// +kubebuilder:default="2Mi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="sendfileMaxChunk: must be from 16Ki to 1Gi"
	SendfileMaxChunk *resource.Quantity `json:"sendfileMaxChunk,omitempty"`
}
