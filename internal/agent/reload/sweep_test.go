package reload

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestSweep checks that no certificate or key of an earlier configuration stays in the pod. A restarted agent would use
// the copies that it finds.
func TestSweep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(root+layout.RunDir, 0o750); err != nil {
		t.Fatal(err)
	}
	var keep []cache.File
	var want []string
	for _, path := range []func(string) string{
		layout.CAFile, layout.ScriptFile, layout.ListenerCertificate, layout.ListenerKey,
		layout.PeerCertificate, layout.PeerKey, layout.PeerAuthority,
	} {
		for _, hash := range []string{"0000", "1111", "2222"} {
			if err := os.WriteFile(root+path(hash), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		keep = append(keep, cache.File{Path: path("1111")})
		want = append(want, root+path("1111"))
	}
	(&Nginx{Root: root}).sweep(keep)
	got, err := filepath.Glob(root + layout.RunDir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
