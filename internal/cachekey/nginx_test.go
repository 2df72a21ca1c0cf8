package cachekey_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// uris are URIs that are difficult to handle.
var uris = []string{
	"/", "/a", "/a/", "/a//b", "/a/./b", "/a/../b/c", "/a/b/..", "/a/b/.", "/a%20b", "/%61?x=1&y=%20", "/a?", "/\xc3\xbc",
	"/a%2Fb", "/..a/b..", "/a?b=c", "/a%3Fb=c", "/a%3Fb", "/a%3F?b=c", "/a%3F?", "/a%20?b=c", "/a%3F%20?b=c", "/a#b?c",
	"/a?b#c", "/a%23b", "/a;b", "/a+b?c+d", "/%2e%2e", "/a/%2e%2e/b", "/a%", "/a%zz", "/a%00b", "/a%0Ab", "/a%7Fb",
	"/bytes=0-9%20http://a/b", "/a?&&x=1&&", "/a?utm_x=1#utm_y", "/.%23/../b", "/a/..%3F/b",
}

// hosts are values that clients can send in the header Host.
var hosts = []string{
	"www.example.com", "WWW.Example.COM", "www.example.com:8080", "www.example.com.", "www.example.com.:80", "[::1]:8080",
	"[FE80::A]", "site=shop", "bytes=0-9", "generation=1", "a?b=c", "a%20b", "\xc3\x9c.example.com",
	"\xe2\x84\xaa.example.com", "\xff\xfeA", "a#b",
}

// clientRequest returns a request that a client could send: the request line has no space and no control character.
func (r random) clientRequest() cachekey.Request {
	uri := "/" + r.text(func(b byte) bool { return b > ' ' && b != 0x7f })
	if r.IntN(2) == 0 {
		uri += r.oneOf("", "/", "?") + r.oneOf("a", "utm_x", "id", "page2", "b%20c", "") +
			r.oneOf("", "=", "=1", "=%26", "&") + r.oneOf("", "&", "&id=3", "&utm_y=1&utm_z", "&&x=1&")
	}
	if r.IntN(4) == 0 {
		uri = r.oneOf(uris...)
	}
	return cachekey.Request{Method: "GET", Scheme: "http", Host: r.oneOf(hosts...), URI: uri}
}

// connection is a client's connection. When nginx answers a request, it has already stored its responses to the earlier
// requests of the connection.
type connection struct {
	nginx  *nginxtest.Nginx
	conn   net.Conn
	reader *bufio.Reader
}

// ask sends a request and returns the status, and the disk that has the response.
func (c *connection) ask(t *testing.T, r cachekey.Request, headers string) (status int, disk string) {
	t.Helper()
	if c.conn == nil {
		conn, err := c.nginx.Dial("127.0.0.1:8080")
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	_, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.Method, r.URI, r.Host, headers)
	must(t, err)
	response, err := http.ReadResponse(c.reader, &http.Request{Method: r.Method})
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	must(t, err)
	if response.Close { // nginx closes the connection after it has stored the response
		_, _ = io.Copy(io.Discard, c.reader)
		c.conn = nil
	}
	return response.StatusCode, response.Header.Get("X-Cache-Disk")
}

// tail is the size of each response in bytes. A response contains a whole object, or the part of an object from the
// first requested byte to the end.
const tail = 100

// origin answers requests with and without ranges. An object always ends 100 bytes (tail) after the beginning of the
// requested range.
func origin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Cache-Control", "max-age=600")
	var first int64
	body := strings.Repeat("x", tail)
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first); err != nil {
		_, _ = io.WriteString(w, body)
		return
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+tail-1, first+tail))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = io.WriteString(w, body)
}

// TestNginxAgrees sends thousands of requests to a real nginx. From each request, it computes the disk of the response,
// the file, and the key in the file. nginx must have stored exactly these files.
func TestNginxAgrees(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy string
		also   string   // a method besides GET
		ranges []string // the ranges of the requests
	}{
		"as sent":              {"{}", "", nil},
		"decoded":              {"{key: [Method, Scheme, Host, URI, Args], methods: [GET, HEAD, POST]}", "POST", nil},
		"without arguments":    {"{key: [Host, URI]}", "", nil},
		"filtered":             {`{query: {drop: ["utm_*", id, "b%20c"]}}`, "", nil},
		"decoded and filtered": {`{key: [URI, Args], query: {keep: [id, "page*"]}}`, "", nil},
		"in slices":            {"{slice: {size: 1Mi}}", "", []string{"0-9", "1048576-1048585", "9223372036852678656-"}},
		"in slices of 3 MiB":   {"{key: [Host, URI], slice: {size: 3Mi}}", "", []string{"3145730-", "9223372036849532928-"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, config, policy := start(t, tt.policy)
			r, want := random{rand.New(rand.NewPCG(5, 6))}, map[string]string{}
			c := &connection{nginx: n}
			for range 400 {
				request, headers := r.clientRequest(), ""
				if tt.also != "" && r.IntN(2) == 0 {
					request.Method = tt.also
				}
				key := cachekey.Of(policy, request)
				owner := config.Plan.Tree().Owner([]byte(key.Object()))
				if tt.ranges != nil {
					part := r.oneOf(tt.ranges...)
					headers = "Range: bytes=" + part + "\r\n"
					size := policy.Slice.Size.Value()
					var first int64
					_, err := fmt.Sscanf(part, "%d-", &first)
					must(t, err)
					key.Slice = cachekey.NthSlice(size, first/size)
				}
				status, disk := c.ask(t, request, headers)
				if status == http.StatusBadRequest {
					continue
				}
				if status != http.StatusOK && status != http.StatusPartialContent || disk != owner {
					t.Fatalf("%q %s: status %d from %q, want %s for key %q", request, headers, status, disk, owner, key)
				}
				if disk == "disk2" {
					key.Generation = generation
				}
				want[cachekey.OnDisk(disk, key.String())] = key.String()
			}
			c.ask(t, cachekey.Request{Method: "GET", URI: "/-", Host: "last.example.com"}, "Authorization: none\r\n")
			if len(want) < 150 {
				t.Errorf("only %d responses were stored", len(want))
			}
			if diff := cmp.Diff(want, stored(t, n)); diff != "" {
				t.Errorf("keys by file (-want +got)\n%s", diff)
			}
		})
	}
}

// generation is the generation of the keys on disk2.
const generation = 12

// start starts nginx with two disks.
func start(t *testing.T, policy string) (*nginxtest.Nginx, cache.Config, v1alpha1.Cache) {
	t.Helper()
	yaml := `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}], hostHeader: www.example.com}
  memoryTier: {enabled: false}
  cache: ` + policy
	config := nginxtest.RenderWith(t, yaml, cache.Facts{Cores: 2, Generations: map[string]int64{"disk2": generation}})
	n := nginxtest.New(t)
	n.Configure(config.Text, "disk1", "disk2")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(origin))
	n.Start()
	cacheNode, errs, err := schema.Decode([]byte(yaml))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	return n, config, cacheNode.Spec.Cache
}

// stored returns the keys in nginx's files, by file.
func stored(t *testing.T, n *nginxtest.Nginx) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for _, disk := range []string{"disk1", "disk2"} {
		must(t, filepath.WalkDir(n.Root+layout.CacheDir(disk), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			h, err := cachefile.Read(file)
			keys[strings.TrimPrefix(path, n.Root)] = h.Key
			return err
		}))
	}
	return keys
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
