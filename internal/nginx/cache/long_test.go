package cache_test

import (
	"os"
	"testing"
)

// isLong skips a test that waits for minutes, unless CACHENODE_TEST_LONG is set.
func isLong(t *testing.T) {
	t.Helper()
	if os.Getenv("CACHENODE_TEST_LONG") == "" {
		t.Skipf("it takes minutes: CACHENODE_TEST_LONG=1 NGINX_ROOT=$(hack/nginx-root) "+
			"go test ./internal/nginx/cache -run '^%s$'", t.Name())
	}
}
