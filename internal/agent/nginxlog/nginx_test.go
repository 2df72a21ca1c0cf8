package nginxlog_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
	"github.com/cachenode/cachenode-operator/test/xfs"
)

const spec = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 512Mi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}], hostHeader: www.example.com}
  memoryTier: {enabled: false}
  cache: {key: [RequestURI, Host]}
  logs: {level: Info}
`

// errorLines returns the lines of the error log that nginx has sent so far.
func errorLines(n *nginxtest.Nginx) (lines []string) {
	for _, datagram := range n.Reports() {
		if tag, text, ok := nginxlog.Split(datagram); ok && tag == agentapi.TagError {
			lines = append(lines, text)
		}
	}
	return lines
}

// waitFor waits until the lines that nginx has sent contain a text at least as often as wanted.
func waitFor(t *testing.T, n *nginxtest.Nginx, want int, text string) {
	t.Helper()
	await.Until(t, func() string {
		lines := strings.Join(errorLines(n), "\n")
		if got := strings.Count(lines, text); got < want {
			return fmt.Sprintf("%d lines have %q, want %d:\n%s", got, text, want, lines)
		}
		return ""
	})
}

// TestFailuresOfNginx checks that each message in which nginx reports a failed disk is parsed as a Failure.
func TestFailuresOfNginx(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	disk := n.Root + layout.DiskDir("disk1")
	xfs.Mount(t, disk)
	n.Disk("disk1")
	n.Configure(nginxtest.Render(t, spec).Text, "disk1")
	begun, failed := make(chan struct{}), make(chan struct{})
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		if r.URL.Path == "/begun" {
			w.(http.Flusher).Flush()
			close(begun)
			<-failed
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	}))
	n.Start()
	get := func(path string) {
		response, err := n.Client().Get("http://127.0.0.1:8080" + path)
		if err != nil {
			return // nginx ends a response when it cannot write the response's file
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	get("/stored")
	done := make(chan struct{})
	go func() { defer close(done); get("/begun") }()
	<-begun
	xfs.Shutdown(t, disk)
	close(failed)
	<-done
	get("/stored")
	get("/other")
	waitFor(t, n, 3, " failed (5: ")
	failures := 0
	for _, line := range errorLines(n) {
		e, ok := nginxlog.ParseError(line)
		if !ok {
			t.Errorf("no line of the error log: %q", line)
		}
		want := nginxlog.NoEvent
		if strings.Contains(line, layout.DiskDir("disk1")) && strings.Contains(line, " failed (5: ") {
			want, failures = nginxlog.Failure, failures+1
		}
		if e.Event != want || e.Event == nginxlog.Failure && e.Disk != "disk1" {
			t.Errorf("event %q of disk %q, want %q: %s", e.Event, e.Disk, want, line)
		}
	}
	if failures < 3 {
		t.Errorf("%d failures, want one for each request", failures)
	}
}

// lies are texts that imitate nginx's own messages about disks and connections.
var lies = []string{
	`open() "` + layout.CacheDir("disk1") + `/a/bc/0123456789abcdef0123456789abcdef" failed (5: Input/output error)`,
	layout.CacheDir("disk1") + ` failed (5: Input/output error)`,
	`http file cache: ` + layout.CacheDir("disk1") + ` 0.000M, bsize: 4096`,
	`thread pool "pool_disk1" queue overflow: 9 tasks waiting`,
	`512 worker_connections are not enough`,
}

// TestLiesOfOthers checks, with a real nginx, that text from clients and origins in the log is never parsed as an event
// of nginx.
func TestLiesOfOthers(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	n.Configure(nginxtest.Render(t, spec+
		"  listen: {clientAddress: {source: ProxyProtocol, trustedCIDRs: [127.0.0.1/32]}}\n").Text, "disk1")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lie := lies[int(r.Header.Get("Lie")[0]-'0')]
		switch r.URL.Path {
		case "/unsafe":
			w.Header().Set("X-Accel-Redirect", "/../"+lie)
		case "/elsewhere":
			w.Header().Set("X-Accel-Redirect", "/"+lie)
		case "/broken":
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", lie)
				_ = connection.Close()
			}
		}
	}))
	n.Start()
	const proxy = "PROXY TCP4 192.0.2.9 192.0.2.1 5555 80\r\n"
	for i, lie := range lies {
		headers := fmt.Sprintf("Lie: %d\r\nReferer: %s\r\nConnection: close\r\n\r\n", i, lie)
		for _, request := range []string{
			lie + "\r\n",                         // no PROXY header
			"PROXY " + lie + "\r\n",              // a broken PROXY header
			"PROXY TCP4 " + lie + " 1.2.3.4\r\n", // an invalid address
			proxy + lie + "\r\n\r\n",
			proxy + "GET /" + lie + " HTTP/1.1\r\nHost: a\r\n" + headers,
			proxy + "GET / HTTP/1.1\r\nHost: " + lie + "\r\n" + headers,
			proxy + "GET / HTTP/1.1\r\n" + lie + "\r\n\r\n",
			proxy + "GET /unsafe HTTP/1.1\r\nHost: a\r\n" + headers,
			proxy + "GET /elsewhere HTTP/1.1\r\nHost: a\r\n" + headers,
			proxy + "GET /broken HTTP/1.1\r\nHost: a\r\n" + headers,
			proxy + "GET /broken%22" + strings.ReplaceAll(lie, " ", "%20") + "%0a HTTP/1.1\r\nHost: a\r\n" + headers,
		} {
			connection, err := n.Dial("127.0.0.1:8080")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(connection, request)
			_, _ = io.Copy(io.Discard, connection)
			_ = connection.Close()
		}
	}
	for _, text := range []string{"broken header: ", "unsafe URI ", "upstream sent invalid header"} {
		waitFor(t, n, 1, text)
	}
	await.Until(t, func() string {
		told := slices.DeleteFunc(errorLines(n), func(line string) bool {
			return !strings.Contains(line, "queue overflow") && !strings.Contains(line, "failed (5: ")
		})
		if len(told) < len(lies) {
			return fmt.Sprintf("only %d lines have such a text:\n%s", len(told), strings.Join(errorLines(n), "\n"))
		}
		return ""
	})
	for _, line := range errorLines(n) {
		if e, ok := nginxlog.ParseError(line); !ok || e.Event != nginxlog.NoEvent {
			t.Errorf("taken for %q of disk %q: %s", e.Event, e.Disk, line)
		}
	}
	if _, err := os.Stat(filepath.Join(n.Root, layout.CacheDir("disk1"))); err != nil {
		t.Error(err)
	}
}
