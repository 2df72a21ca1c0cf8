package effective

import (
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestUseStaleSwitchesWindowsOff(t *testing.T) {
	for name, tt := range map[string]struct {
		useStale       []v1alpha1.StaleReason
		while, ifError v1alpha1.Duration
	}{
		"not given":          {nil, "30s", "24h"},
		"all":                {[]v1alpha1.StaleReason{"Error", "Updating", "HTTP503"}, "30s", "24h"},
		"errors only":        {[]v1alpha1.StaleReason{"HTTP503"}, "0s", "24h"},
		"while updated only": {[]v1alpha1.StaleReason{"Updating"}, "30s", "0s"},
		"never":              {[]v1alpha1.StaleReason{}, "0s", "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Stale(v1alpha1.Cache{
				UseStale: tt.useStale, CacheRules: v1alpha1.CacheRules{StaleWhileRevalidate: "30s", StaleIfError: "24h"},
			})
			if got.StaleWhileRevalidate != tt.while || got.StaleIfError != tt.ifError {
				t.Errorf("%s and %s, want %s and %s", got.StaleWhileRevalidate, got.StaleIfError, tt.while, tt.ifError)
			}
		})
	}
}
