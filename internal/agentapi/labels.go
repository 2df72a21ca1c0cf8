package agentapi

// Values of the label cache of the agent's metrics, in addition to the values of nginx's $upstream_cache_status.
const (
	// CacheMemory means that the memory tier served the request.
	CacheMemory = "MEMORY"
	// CacheOtherDisk means that another disk served the request because the key's own disk could not.
	CacheOtherDisk = "OTHER_DISK"
	// CacheUncached means that no disk could serve the request.
	CacheUncached = "UNCACHED"
	// CachePassed means that the request bypassed the caches, for example because of credentials or of its method.
	CachePassed = "BYPASS"
	// CacheNone means that nginx looked in no cache.
	CacheNone = "NONE"
)

// IsHit reports whether a value of the label cache means that the object came from the disk or from memory.
func IsHit(cache string) bool {
	switch cache {
	case "HIT", "STALE", "UPDATING", "REVALIDATED", CacheMemory:
		return true
	}
	return false
}

// Values of the label source of the agent's metrics: the place from which an object was filled.
const (
	FromPeer   = "peer"
	FromDisk   = "disk"
	FromOrigin = "origin"
)
