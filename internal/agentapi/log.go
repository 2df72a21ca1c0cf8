package agentapi

// Tags of the lines that nginx sends to the agent by syslog.
const (
	// TagCached: a request that its own disk served, or that filled the disk.
	TagCached = "cached"
	// TagMemory: a request that the memory tier served.
	TagMemory = "memory"
	// TagOtherDisk: a request that another disk served because its own could not.
	TagOtherDisk = "otherdisk"
	// TagUncached: a request that no disk could serve.
	TagUncached = "uncached"
	// TagError: a line of the error log.
	TagError = "error"
)

// RequestFormat is nginx's log_format for requests: disk, cache status, HTTP status, bytes, time to the first byte and whole
// time in seconds, and whether the cap on uncached requests let it pass.
const RequestFormat = "$disk $upstream_cache_status $status $bytes_sent $first_byte $request_time $limit_conn_status"

// NoDisk is the disk of a request while all have failed. No disk can have the name.
const NoDisk = "no-disk"
