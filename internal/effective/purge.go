package effective

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TagHeaders returns the names of the response headers that contain the tags of an object.
func TagHeaders(spec v1alpha1.CacheNodeSpec) []string {
	if len(spec.Purge.TagHeaders) > 0 {
		return spec.Purge.TagHeaders
	}
	return []string{"Surrogate-Key", "Cache-Tag"}
}

// PurgeGrace returns the time after a purge within which responses that the origin made before the purge may still
// arrive.
func PurgeGrace(spec v1alpha1.CacheNodeSpec) time.Duration {
	if spec.Purge.Grace != "" {
		return Duration(spec.Purge.Grace)
	}
	return 10 * time.Second
}
