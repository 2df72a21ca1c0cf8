package cache_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestFewOpenFiles checks that nginx accepts fewer connections if the limit on open files is low. The files of the
// caches must still open, because otherwise a disk would look broken. nginx has no privileges, so it must not try to
// exceed the limit.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	const limit, clients = 512, 300
	n := nginxtest.New(t)
	n.LimitFiles(limit)
	in := decode(t, []byte(threeDisks))
	in.Facts.Cores, in.Facts.OpenFiles = 1, limit
	config, err := cache.Render(in)
	must(t, err)
	// nginx keeps connections for the whole test, even if their clients do not read.
	n.Configure(strings.Replace(config.Text, "http {\n", "http {\n    send_timeout 1h;\n", 1), "disk1", "disk2", "disk3")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, strings.Repeat("0123456789abcdef", 1<<20)) // more than socket buffers can hold
	}))
	n.Start()
	r, body := ask(t, n.Client(), http.MethodGet, "http://127.0.0.1:8080/large")
	if r.StatusCode != http.StatusOK || len(body) != 16<<20 {
		t.Fatal(r.Status, len(body))
	}
	n.Cached("http://www.example.com/large", "disk1", "disk2", "disk3")

	var held []net.Conn
	for range clients { // each reads a byte, so nginx has its socket and a cache file open
		connection, err := n.Dial("127.0.0.1:8080")
		must(t, err)
		defer func() { _ = connection.Close() }()
		must(t, connection.SetDeadline(await.Deadline()))
		_, err = io.WriteString(connection, "GET /large HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
		if err == nil {
			_, err = connection.Read(make([]byte, 1))
		}
		if err == nil {
			held = append(held, connection)
		}
	}
	if len(held) < 64 || len(held) >= limit/2 {
		t.Errorf("%d of %d clients get an answer with %d open files", len(held), clients, limit)
	}
	for line := range strings.Lines(n.Log()) {
		if regexp.MustCompile(`setrlimit|Too many open files`).MatchString(line) {
			t.Errorf("nginx logs %s", line)
			break
		}
	}
}

// TestFilesAreNotLimited checks that nginx uses the container's limit on open files, and no lower limit. A response in
// slices has an open file for each slice.
func TestFilesAreNotLimited(t *testing.T) {
	t.Parallel()
	const limit = 15000
	n := nginxtest.New(t)
	n.LimitFiles(limit)
	in := decode(t, []byte(threeDisks))
	in.Spec.Listen.MaxConnections = new(int32(256))
	in.Facts.Cores, in.Facts.OpenFiles = 1, limit
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Start()
	for _, pid := range n.Processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		must(t, err)
		line := regexp.MustCompile(`Max open files.*`).FindString(string(text))
		if !regexp.MustCompile(`files +15000 +15000 `).MatchString(line) {
			t.Errorf("process %d: %s", pid, line)
		}
	}
}

// TestFewOpenFilesInMemory checks that nginx does not keep too many files of the memory tier open, so that files of the
// disks can be open too. Even if the memory tier has more files than the limit, a worker keeps at most an eighth of the
// limit open.
func TestFewOpenFilesInMemory(t *testing.T) {
	t.Parallel()
	const limit, objects = 400, 600
	n := nginxtest.New(t)
	n.LimitFiles(limit)
	tier := strings.Replace(nginxtest.MemoryTier("minUses: 1"), "64Mi", "2Gi", 1) // large enough for all objects at once
	in := decode(t, []byte(threeDisks+tier))
	in.Facts.Cores, in.Facts.OpenFiles = 1, limit
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(oftenRenewed(config.Text), "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	n.Start()
	client := n.Client()
	await.True(t, "no more objects are in memory than files may be open", func() bool {
		inMemory := 0
		for i := range objects {
			path := fmt.Sprint("/", i)
			r, body := ask(t, client, http.MethodGet, base+path)
			if r.StatusCode != http.StatusOK || body != path {
				t.Fatal(r.Status, body)
			}
			if place(r) == "HIT memory" {
				inMemory++
			}
		}
		return inMemory > limit
	})
	if strings.Contains(n.Log(), "Too many open files") {
		t.Error(n.Log())
	}
	for _, pid := range n.Processes() {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		must(t, err)
		open := 0
		for _, link := range links {
			if file, err := os.Readlink(link); err == nil && strings.Contains(file, layout.MemoryTierCache) {
				open++
			}
		}
		if open > limit/8 {
			t.Errorf("process %d keeps %d files of the memory tier open, want at most %d", pid, open, limit/8)
		}
	}
}
