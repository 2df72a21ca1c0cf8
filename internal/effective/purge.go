package effective

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TagHeaders returns the headers of responses with the tags of an object.
func TagHeaders(spec v1alpha1.CacheNodeSpec) []string {
	if len(spec.Purge.TagHeaders) > 0 {
		return spec.Purge.TagHeaders
	}
	return []string{"Surrogate-Key", "Cache-Tag"}
}

// PurgeGrace returns how long responses from before a purge may take to arrive.
func PurgeGrace(spec v1alpha1.CacheNodeSpec) time.Duration {
	if spec.Purge.Grace != "" {
		return Duration(spec.Purge.Grace)
	}
	return 10 * time.Second
}
