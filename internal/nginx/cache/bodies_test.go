package cache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// protocols returns a function for each version of HTTP. The function returns a client that can send a body with GET,
// and the URL of a path.
func protocols(t *testing.T, n *nginxtest.Nginx) map[string]func(path string) (*http.Client, string) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.com"}
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return n.Dial("127.0.0.1:" + port)
	}
	over := func(transport http.RoundTripper, base string) func(string) (*http.Client, string) {
		client := &http.Client{Timeout: await.Patience, Transport: transport}
		t.Cleanup(client.CloseIdleConnections)
		return func(path string) (*http.Client, string) { return client, base + path }
	}
	transport := func(set func(*http.Protocols)) *http.Transport {
		only := &http.Protocols{}
		set(only)
		return &http.Transport{DialContext: dial, TLSClientConfig: config, Protocols: only}
	}
	packets := &quic.Transport{Conn: n.ListenPacket("127.0.0.1:0")}
	t.Cleanup(func() { _ = packets.Close() })
	quick := &http3.Transport{
		TLSClientConfig: config,
		Dial: func(ctx context.Context, _ string, config *tls.Config, options *quic.Config) (*quic.Conn, error) {
			return packets.Dial(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}, config, options)
		},
	}
	t.Cleanup(func() { _ = quick.Close() })
	const plain, secure = "http://www.example.com:8080", "https://www.example.com:8443"
	return map[string]func(string) (*http.Client, string){
		"HTTP/1.1":              over(transport(func(p *http.Protocols) { p.SetHTTP1(true) }), plain),
		"HTTP/2":                over(transport(func(p *http.Protocols) { p.SetHTTP2(true) }), secure),
		"HTTP/2, in plain text": over(transport(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }), plain),
		"HTTP/3":                over(quick, secure),
	}
}

// reflect is an origin whose response to a GET depends on the body.
func reflect(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.Contains(r.URL.Path, "weak") { // without an ETag, nginx fetches no slices
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body)))
	}
	w.Header().Set("X-Accel-Expires", "60")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(fmt.Sprintf("%s for %q", r.URL.Path, body)))
}

// askWith sends a GET with a body of unknown length. Only HTTP/1.1 announces such a body in a header.
func askWith(t *testing.T, client *http.Client, url string, body io.Reader) (status int, got string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, io.MultiReader(body))
	must(t, err)
	request.Host, request.ContentLength = "www.example.com", -1
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(content)
}

// checkBodies checks, with each version of HTTP, that only the sender of a GET with a body gets the origin's response
// to this request. It checks this without a copy in the cache, and with a fresh copy. A long body that no header
// announces is refused.
func checkBodies(t *testing.T, n *nginxtest.Nginx, path func(name string) string) {
	t.Helper()
	for name, over := range protocols(t, n) {
		t.Run(name, func(t *testing.T) {
			for size, body := range map[string]string{"short": "evil", "long": strings.Repeat("evil", 50_000)} {
				path := path("/" + strings.NewReplacer("/", "", ".", "", ",", "", " ", "").Replace(name) + size)
				client, url := over(path)
				mine, others := fmt.Sprintf("%s for %q", path, body), fmt.Sprintf("%s for %q", path, "")
				isRefused := func(status int) bool {
					return size == "long" && name != "HTTP/1.1" && status == http.StatusRequestEntityTooLarge
				}
				status, got := askWith(t, client, url, bytes.NewBufferString(body))
				if isMine := status == http.StatusOK && got == mine; !isMine && !isRefused(status) {
					t.Errorf("%s, with nothing stored: status %d, %d bytes: %.80q", size, status, len(got), got)
				}
				for range 2 { // then a MISS and a HIT
					if r, got := ask(t, client, http.MethodGet, url); got != others {
						t.Errorf("%s, without a body, a %s: %.80q", size, place(r), got)
					}
				}
				// The stored copy may be the answer, because nginx looks it up before the body arrives.
				status, got = askWith(t, client, url, bytes.NewBufferString(body))
				if isAnswer := status == http.StatusOK && (got == mine || got == others); !isAnswer && !isRefused(status) {
					t.Errorf("%s, with a copy stored: status %d, %.80q", size, status, got)
				}
				if r, got := ask(t, client, http.MethodGet, url); got != others {
					t.Errorf("%s, without a body, a %s: %.80q", size, place(r), got)
				}
			}
		})
	}
}

// TestBodiesWithoutLength checks bodies of GET that no header announces.
func TestBodiesWithoutLength(t *testing.T) {
	t.Parallel()
	tls := func(spec *v1alpha1.CacheNodeSpec) {
		overTLS(spec)
		spec.Listen.TLS.HTTP3, spec.Service.HTTPSPort = true, new(int32(443))
	}
	for name, changes := range map[string][]func(*v1alpha1.CacheNodeSpec){
		"disks alone": nil, "memory tier": {inMemory}, "slices": {inSlices}, "memory tier and slices": {inMemory, inSlices},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, reflect, append(changes, tls)...)
			checkBodies(t, n, func(name string) string { return name })
			checkBodies(t, n, func(name string) string { return "/weak" + name })
		})
	}
}

// TestBodyForAnExpiredObject checks that a body of GET does not replace an expired object.
func TestBodyForAnExpiredObject(t *testing.T) {
	t.Parallel()
	n := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("ETag", `"a"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = fmt.Fprintf(w, "for %q", body)
	}, overTLS)
	client, url := protocols(t, n)["HTTP/2"]("/object")
	ask(t, client, http.MethodGet, url)
	for range 3 {
		expire(t, n, "https://www.example.com/object")
		if _, got := askWith(t, client, url, strings.NewReader("evil")); got != `for "evil"` {
			t.Errorf("with a body: %q", got)
		}
		if r, got := ask(t, client, http.MethodGet, url); got != `for ""` {
			t.Errorf("without a body, a %s: %q", place(r), got)
		}
	}
}

// TestBodiesOverHops checks bodies of GET for keys of another pod.
func TestBodiesOverHops(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"disks alone": "  memoryTier: {enabled: false}\n", "memory tier": nginxtest.MemoryTier(""),
		"slices": "  memoryTier: {enabled: false}\n  cache: {slice: {size: 1Mi}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen := "  listen: {tls: {secretName: edge-tls, port: 8443, http3: true}}\n  service: {httpsPort: 443}\n"
			p := newPods(t, 2, sharded(listen+more), func(_ int, in *cache.Input, write func(string, []byte)) {
				in.Facts.Certificate = certificateHash
				certificate, key := selfSigned(t, "www.example.com")
				write(layout.ListenerCertificate(certificateHash), certificate)
				write(layout.ListenerKey(certificateHash), key)
			})
			checkBodies(t, p.nginx[0], func(name string) string { return ownedBySecond(t, "/reflect"+name) })
		})
	}
}
