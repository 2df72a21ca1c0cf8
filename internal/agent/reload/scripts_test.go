package reload

import (
	"os"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestHasScripts checks that an nginx without the module for scripts, as in the image nginx-slim, is found.
func TestHasScripts(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	nginx := &Nginx{Program: n.Program(), Root: n.Root, TestTimeout: time.Minute}
	for _, want := range []bool{true, false} {
		if got, err := nginx.HasScripts(t.Context()); got != want || err != nil {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		if want {
			if err := os.Remove(n.Root + cache.Module); err != nil {
				t.Fatal(err)
			}
		}
	}
}
