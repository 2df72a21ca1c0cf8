package effective

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Stale returns the cache policy with the values of staleWhileRevalidate and staleIfError that are in effect. The
// deprecated field cache.useStale can switch stale responses off.
func Stale(c v1alpha1.Cache) v1alpha1.Cache {
	if c.UseStale == nil {
		return c
	}
	if !slices.Contains(c.UseStale, "Updating") {
		c.StaleWhileRevalidate = "0s"
	}
	if !slices.ContainsFunc(c.UseStale, func(r v1alpha1.StaleReason) bool { return r != "Updating" }) {
		c.StaleIfError = "0s"
	}
	return c
}
