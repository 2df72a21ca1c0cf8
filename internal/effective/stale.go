package effective

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Stale returns the policy with the windows that apply: cache.useStale, which is deprecated, can switch them off.
func Stale(c v1alpha1.CachePolicy) v1alpha1.CachePolicy {
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
