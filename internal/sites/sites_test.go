package sites

import (
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestLock checks how long a request waits for the response to another request. By default, it waits as long as the
// origin may take.
func TestLock(t *testing.T) {
	t.Parallel()
	origin := v1alpha1.Origin{
		Timeouts: v1alpha1.OriginTimeouts{Connect: "5s", Read: "60s"}, Retries: v1alpha1.Retries{Timeout: "10s"},
	}
	for name, tt := range map[string]struct {
		lock         v1alpha1.CacheLock
		timeout, age time.Duration
	}{
		"by default":         {v1alpha1.CacheLock{}, 75 * time.Second, 75 * time.Second},
		"as the spec says":   {v1alpha1.CacheLock{Timeout: "5s", Age: "7s"}, 5 * time.Second, 7 * time.Second},
		"one of them is set": {v1alpha1.CacheLock{Timeout: "0s"}, 0, 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Own(v1alpha1.CacheNodeSpec{Origin: origin, Cache: v1alpha1.Cache{Lock: tt.lock}})
			if timeout, age := s.LockTimeout(), s.LockAge(); timeout != tt.timeout || age != tt.age {
				t.Errorf("timeout %s, age %s; want %s, %s", timeout, age, tt.timeout, tt.age)
			}
		})
	}
}
