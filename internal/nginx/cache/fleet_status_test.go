package cache_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestStatusesOverHops checks stored responses that are not a plain 200. They must reach a client through another pod
// in the same way as through their owner. The client gets the status and the complete body, and can send the next
// request over the connection.
func TestStatusesOverHops(t *testing.T) {
	t.Parallel()
	const storesFailures = "  memoryTier: {enabled: false}\n" +
		"  cache: {valid: [{status: [200, 404, 410, 502, 504], for: 1m}]}\n"
	for name, yaml := range map[string]string{
		"hard disks":      sharded("  memoryTier: {enabled: false}\n"),
		"SSD":             fastSharded("  memoryTier: {enabled: false}\n"),
		"SSD and slices":  fastSharded("  memoryTier: {enabled: false}\n  cache: {slice: {size: 1Mi}}\n"),
		"hard disks, hot": sharded(nginxtest.MemoryTier("minUses: 1")),
		"stored 5xx":      sharded(storesFailures),
		"SSD, stored 5xx": fastSharded(storesFailures),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				var status int
				if _, err := fmt.Sscanf(r.URL.Path, "/status/%d/", &status); err != nil {
					return false
				}
				body := strings.Repeat(r.URL.Path+"\n", 500)
				w.Header().Set("ETag", `"1"`)
				w.Header().Set("Last-Modified", "Mon, 23 Nov 2026 10:00:00 GMT")
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return true
			})
			for _, tt := range []struct {
				status, want int
				header       string
			}{
				{status: 200, want: 200},
				{status: 404, want: 404},
				{status: 410, want: 410},
				{status: 502, want: 502},
				{status: 504, want: 504},
				{status: 200, want: 412, header: `If-Match: "other"`},
				{status: 200, want: 412, header: "If-Unmodified-Since: Sun, 22 Nov 2026 10:00:00 GMT"},
				{status: 200, want: 304, header: `If-None-Match: "1"`},
				{status: 200, want: 206, header: "Range: bytes=0-9"},
				{status: 200, want: 416, header: "Range: bytes=9999999-"},
			} {
				path := ownedBySecond(t, fmt.Sprintf("/status/%d/%d%d", tt.status, tt.want, len(tt.header)))
				own := rawly(t, p, 1, path, tt.header)
				for range 3 {
					if diff := cmp.Diff(own, rawly(t, p, 0, path, tt.header)); diff != "" {
						t.Errorf("%d, asked with %q, through another pod (-owner +other):\n%s", tt.status, tt.header, diff)
					}
				}
				if own.Status != tt.want {
					t.Errorf("%d, asked with %q: %d, want %d", tt.status, tt.header, own.Status, tt.want)
				}
			}
		})
	}
}

// answered is what a client gets.
type answered struct {
	Status int
	Body   string
	// Next is the status of the next request over the connection; 0 if there is none.
	Next int
}

// rawly asks a pod twice over one connection: for a path, and then for an object that always exists.
func rawly(t *testing.T, p *pods, pod int, path, header string) (a answered) {
	t.Helper()
	connection, err := p.nginx[pod].Dial("127.0.0.1:8080")
	must(t, err)
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReader(connection)
	next := func(path, header string) (status int, content string, closes bool) {
		request := "GET " + path + " HTTP/1.1\r\nHost: www.example.com\r\n"
		if header != "" {
			request += header + "\r\n"
		}
		_, err := io.WriteString(connection, request+"\r\n")
		must(t, err)
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s, asked with %q, after %d: %v", path, header, a.Status, err)
		}
		body, err := io.ReadAll(r.Body)
		must(t, err)
		return r.StatusCode, string(body), r.Close
	}
	var closes bool
	// After a 412 of its own, nginx closes the connection, although the response says keep-alive.
	if a.Status, a.Body, closes = next(path, header); !closes && a.Status != http.StatusPreconditionFailed {
		a.Next, _, _ = next("/object/next", "")
	}
	return a
}
