package reload

import (
	"os"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestHasScripts checks that HasScripts returns false if nginx lacks the module for scripts, as in the image
// nginx-slim, or if the module does not fit. If the trial fails for another reason, HasScripts must return an error.
func TestHasScripts(t *testing.T) {
	t.Parallel()
	removed := func(n *nginxtest.Nginx) error { return os.Remove(n.Root + cache.Module) }
	broken := func(n *nginxtest.Nginx) error { return os.WriteFile(n.Root+cache.Module, []byte("no program"), 0o600) }
	for name, tt := range map[string]struct {
		breaks   func(n *nginxtest.Nginx) error
		has, err bool
	}{
		"as it is":                     {func(*nginxtest.Nginx) error { return nil }, true, false},
		"without the module":           {removed, false, false},
		"with a module that is broken": {broken, false, false},
		"a folder that cannot be written": {
			func(n *nginxtest.Nginx) error { return os.Chmod(n.Root+layout.RunDir, 0o555) }, false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			nginx := &Nginx{Program: n.Program(), Root: n.Root, TestTimeout: await.Patience}
			if err := tt.breaks(n); err != nil {
				t.Fatal(err)
			}
			if got, err := nginx.HasScripts(t.Context()); got != tt.has || (err != nil) != tt.err {
				t.Errorf("got %v, %v; want %v, an error: %v", got, err, tt.has, tt.err)
			}
		})
	}
}
