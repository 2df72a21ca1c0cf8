package agentapi

// Tags of the lines that nginx sends to the agent by syslog.
const (
	// TagCached is for a request that the key's own disk served, or that filled the disk.
	TagCached = "cached"
	// TagMemory is for a request that the memory tier served.
	TagMemory = "memory"
	// TagOtherDisk is for a request that another disk served because the key's own disk could not.
	TagOtherDisk = "otherdisk"
	// TagUncached is for a request that no disk could serve.
	TagUncached = "uncached"
	// TagPassed is for a request past the caches.
	TagPassed = "passed"
	// TagPeer is for a request that the owner of its key answered, TagStandIn for one that the owner's stand-in answered.
	// The other pod reports the request too.
	TagPeer    = "peer"
	TagStandIn = "standin"
	// TagAlone is for a request whose key another pod owns, and that this pod answered because no other pod did. It is
	// reported a second time.
	TagAlone = "alone"
	// TagFilled is for an object whose key has moved and that came from the pod that had the key, TagFilledFromDisk for
	// one that came from the disk of this pod that had it, and TagUnfilled for one that came from the origin.
	TagFilled         = "filled"
	TagFilledFromDisk = "filleddisk"
	TagUnfilled       = "unfilled"
	// TagSlice is for a slice that was fetched from the origin.
	TagSlice = "slice"
	// TagUnsafe is for a request that has changed something at the origin. Its text is the URL.
	TagUnsafe = "unsafe"
	// TagError is for a line of the error log.
	TagError = "error"
)

// RequestFormat is nginx's log_format for requests: disk, cache status, HTTP status, bytes, time to the first byte and
// whole time in seconds, and REJECTED if the request was one too many past its own disk.
const RequestFormat = "$disk $upstream_cache_status $status $bytes_sent $first_byte $request_time $rejected"

// HopFormat is nginx's log_format for requests that another pod answered or should have: RequestFormat, in which the
// status is that of the other pod's cache, the names of the key's owner and of its stand-in, and 1 if nginx did not ask
// the owner, because the owner had not answered before.
const HopFormat = "$disk $upstream_http_x_cachenode_status $status $bytes_sent $first_byte $request_time " +
	"$rejected $owner $stand_in $skips_owner"

// UnsafeFormat is nginx's log_format for such requests. It is not escaped.
const UnsafeFormat = "$scheme://$host$request_uri"

// NoDisk is the disk of a request while all disks have failed. No disk can have this name.
const NoDisk = "no-disk"
