package agent

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestOrphans checks that the temporary files of a killed nginx are removed after the next nginx has started. These
// files are on disks, in refresh caches and in the memory tier. The temporary files of the running nginx must stay.
func TestOrphans(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.offer(naming.StableKey, func(s *v1alpha1.CacheNodeSpec) {
		s.MemoryTier.Enabled, s.MemoryTier.Size = new(true), new(resource.MustParse("64Mi"))
	})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	p.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		if !strings.HasPrefix(r.URL.Path, "/slow") {
			_, _ = io.WriteString(w, "origin")
			return
		}
		_, _ = w.Write(make([]byte, 1<<20))
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	folder := func(path string) string { return p.nginx.Root + path }
	p.nginx.Mkdir(layout.MemoryTierDir)
	p.start()
	p.nginx.Start()
	fetch := func(path string) {
		connection, err := p.nginx.Dial("127.0.0.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if _, err := io.WriteString(connection, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	temporary := func() (paths []string) {
		for _, pattern := range []string{
			layout.CacheDir("disk?") + "/*/*/*.*", layout.RefreshDir("disk?") + "/*.*", layout.MemoryTierCache + "/*/*/*.*",
		} {
			found, err := filepath.Glob(folder(pattern))
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, found...)
		}
		return paths
	}
	fetch("/slow/1")
	fetch("/slow/2")
	await.Until(t, func() string {
		if paths := temporary(); len(paths) != 2 {
			return fmt.Sprintf("two objects are not being stored; temporary files: %q", paths)
		}
		return ""
	})
	killed := p.nginx.Processes() // the master is first, so that it starts no new workers
	for _, pid := range killed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("nginx has ended", func() bool {
		return !slices.ContainsFunc(killed, func(pid int) bool {
			_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			return err == nil
		})
	})
	sockets, err := filepath.Glob(folder(layout.NginxSockets))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("nginx has left no sockets: %v", err)
	}
	for _, socket := range sockets { // as nginx's container does when it starts
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	const name = "0123456789abcdef0123456789abcdef.0000000001"
	orphans := append(temporary(), folder(layout.RefreshDir("disk1"))+"/"+name,
		folder(layout.MemoryTierCache)+"/f/de/"+name)
	for _, path := range orphans {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := p.agent.clock.Now().Add(-time.Minute) // in this test, the next nginx starts sooner than in a pod
		if err := os.Chtimes(path, time.Time{}, before); err != nil {
			t.Fatal(err)
		}
	}
	p.nginx.Start()
	fetch("/slow/3")
	var left []string
	p.eventually("only what is being stored is left", func() bool {
		left = temporary()
		return len(left) == 1 && !slices.Contains(orphans, left[0])
	})
	removed := `cachenode_cache_files_removed_total{disk="disk1",reason="orphan"}`
	if metrics := p.metrics(); !strings.Contains(metrics, removed) {
		t.Errorf("there is no %s", removed)
	}
}
