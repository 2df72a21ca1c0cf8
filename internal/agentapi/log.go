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
	// TagPeer is for a request that the owner of its key answered, TagStandIn for one that the owner's stand-in answered.
	// The other pod reports the request too.
	TagPeer    = "peer"
	TagStandIn = "standin"
	// TagSlice is for a slice that was fetched from the origin.
	TagSlice = "slice"
	// TagError is for a line of the error log.
	TagError = "error"
)

// RequestFormat is nginx's log_format for requests: disk, cache status, HTTP status, bytes, time to the first byte and
// whole time in seconds, and the result of the limit on uncached requests.
const RequestFormat = "$disk $upstream_cache_status $status $bytes_sent $first_byte $request_time $limit_conn_status"

// NoDisk is the disk of a request while all disks have failed. No disk can have this name.
const NoDisk = "no-disk"
