package cache_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestHasDisk checks that what was rendered is read as it was meant: a failed disk has no cache.
func TestHasDisk(t *testing.T) {
	t.Parallel()
	in := decode(t, []byte(threeDisks))
	in.Facts.Failed = []string{"disk2"}
	config, err := cache.Render(in)
	must(t, err)
	for disk, want := range map[string]bool{"disk1": true, "disk2": false, "disk3": true, "disk": false, "disk11": false} {
		if got := cache.HasDisk(config.Text, disk); got != want {
			t.Errorf("%s: %t, want %t", disk, got, want)
		}
	}
}
