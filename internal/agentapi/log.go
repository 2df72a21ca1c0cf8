package agentapi

// Tags of the log lines that nginx sends to the agent by syslog.
const (
	// TagCached marks a request that the key's own disk served, or that filled this disk.
	TagCached = "cached"
	// TagMemory marks a request that the memory tier served.
	TagMemory = "memory"
	// TagOtherDisk marks a request that another disk served because the key's own disk could not.
	TagOtherDisk = "otherdisk"
	// TagUncached marks a request that no disk could serve.
	TagUncached = "uncached"
	// TagPassed marks a request that bypassed the caches.
	TagPassed = "passed"
	// TagPeer marks a request that the owner of its key answered. TagStandIn marks a request that the owner's stand-in
	// answered. The pod that answered reports the request too.
	TagPeer    = "peer"
	TagStandIn = "standin"
	// TagAlone marks a request whose key another pod owns, but that this pod answered because no other pod did. Such a
	// request is also reported under another tag.
	TagAlone = "alone"
	// The next three tags mark objects whose keys have moved. TagFilled marks an object that was filled from the previous
	// pod of its key. TagFilledFromDisk marks an object that was filled from the previous disk of its key in this pod.
	// TagUnfilled marks an object that was fetched from the origin.
	TagFilled         = "filled"
	TagFilledFromDisk = "filleddisk"
	TagUnfilled       = "unfilled"
	// TagSlice marks a slice that was fetched from the origin.
	TagSlice = "slice"
	// TagUnsafe marks a request that has changed something at the origin. The text of the line is the URL.
	TagUnsafe = "unsafe"
	// TagError marks a line of the error log.
	TagError = "error"
)

// RequestFormat is nginx's log_format for requests. Its fields are the disk, the cache status, the HTTP status, the
// number of bytes, the time to the first byte and the total time. Both times are in seconds. The last field is
// REJECTED if nginx rejected the request because too many requests bypassed their own disk.
const RequestFormat = "$disk $upstream_cache_status $status $bytes_sent $first_byte $request_time $rejected"

// HopFormat is nginx's log_format for requests that another pod answered or should have answered. It is RequestFormat
// with the cache status of the other pod, followed by the names of the key's owner and of its stand-in. The last field
// is 1 if nginx did not ask the owner because the owner had not answered earlier requests.
const HopFormat = "$disk $upstream_http_x_cachenode_status $status $bytes_sent $first_byte $request_time " +
	"$rejected $owner $stand_in $skips_owner"

// UnsafeFormat is nginx's log_format for requests with TagUnsafe. The URL in it is not escaped.
const UnsafeFormat = "$scheme://$host$request_uri"

// NoDisk stands for the disk of a request while all disks have failed. No disk can have this name.
const NoDisk = "no-disk"
