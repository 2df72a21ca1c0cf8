package cache_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// overTLS gives a spec a listener for TLS.
func overTLS(spec *v1alpha1.CacheNodeSpec) {
	spec.Listen.TLS = &v1alpha1.ListenTLS{SecretName: "edge-tls", Port: new(int32(8443))}
}

func text(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }

// TestHTTP2 sends requests with curl, which prints the version of HTTP that was used.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	for on, want := range map[bool]string{true: "2 MISS", false: "1.1 MISS"} {
		n := start(t, text, overTLS, func(spec *v1alpha1.CacheNodeSpec) { spec.Listen.TLS.HTTP2 = &on })
		out, err := n.Inside("curl", "-sSk", "--http2", "--resolve", "www.example.com:8443:127.0.0.1", "-o", "/dev/null",
			"-w", "%{http_version} %header{x-cache}", "https://www.example.com:8443/object").CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("http2 is %t: %q, %v; want %q", on, out, err, want)
		}
	}
}

// TestReloadUnderHTTP2 checks that no request fails when nginx reloads while a client has many requests in progress on
// one connection.
func TestReloadUnderHTTP2(t *testing.T) {
	t.Parallel()
	n := start(t, text, overTLS)
	client := &http.Client{Timeout: await.Patience, Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.com"},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return n.Dial("127.0.0.1:8443") },
	}}
	var requests, others atomic.Int64
	stop := make(chan struct{})
	failed := make(chan error, 64)
	for i := range 16 {
		go func() {
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
				r, err := client.Get(fmt.Sprintf("https://www.example.com:8443/%d", i))
				if err != nil && (strings.Contains(err.Error(), "client conn could not be established") ||
					strings.Contains(err.Error(), "force closed via ClientConn.Close")) {
					continue // a worker that ends closed the connection before any request, or Go's client did that itself
				}
				if err != nil {
					failed <- err
					return
				}
				if _, err = io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
					failed <- fmt.Errorf("status %d, %w", r.StatusCode, err)
					return
				}
				_ = r.Body.Close()
				requests.Add(1)
				if r.ProtoMajor != 2 {
					others.Add(1)
				}
			}
		}()
	}
	for range 5 {
		before := requests.Load()
		must(t, syscall.Kill(n.Processes()[0], syscall.SIGHUP))
		becomes(t, "500 requests after a reload", func() string {
			return fmt.Sprint(min(requests.Load()-before, 500), " requests after a reload")
		})
	}
	close(stop)
	for range 16 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if others.Load() > 0 {
		t.Errorf("%d of %d requests did not use HTTP/2", others.Load(), requests.Load())
	}
}

// TestHTTP3 sends requests over QUIC. Only responses over TLS may have Alt-Svc.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	n := start(t, text, overTLS, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Listen.TLS.HTTP3, spec.Service.HTTPSPort = true, new(int32(443))
	})
	quicTransport := &quic.Transport{Conn: n.ListenPacket("127.0.0.1:0")}
	defer func() { _ = quicTransport.Close() }()
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.com"},
		Dial: func(ctx context.Context, _ string, config *tls.Config, options *quic.Config) (*quic.Conn, error) {
			return quicTransport.Dial(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}, config, options)
		},
	}
	defer func() { _ = transport.Close() }()
	client := &http.Client{Timeout: await.Patience, Transport: transport}
	for _, want := range []string{"MISS", "HIT"} {
		r, body := ask(t, client, http.MethodGet, "https://www.example.com:8443/object")
		if r.ProtoMajor != 3 || body != "text" || r.Header.Get("X-Cache") != want {
			t.Errorf("HTTP/%d, %q, X-Cache %s; want HTTP/3 and a %s", r.ProtoMajor, body, r.Header.Get("X-Cache"), want)
		}
		if got := r.Header.Get("Alt-Svc"); got != `h3=":443"; ma=86400` {
			t.Errorf("Alt-Svc is %q", got)
		}
	}
	if r, _ := ask(t, n.Client(), http.MethodGet, example); r.Header.Get("Alt-Svc") != "" {
		t.Errorf("without TLS, Alt-Svc is %q", r.Header.Get("Alt-Svc"))
	}
}

// TestClientAddress checks which client address the origin gets and which address the limit counts. It does so for a
// trusted load balancer, and for a load balancer that is not trusted.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source   v1alpha1.AddressSource
		from     string
		preamble string
		header   string
		want     string // X-Forwarded-For at the origin
		status   string
	}{
		"PROXY": {
			v1alpha1.AddressProxyProtocol, "127.0.0.2", "PROXY TCP4 192.0.2.9 192.0.2.1 5555 80\r\n", "", "192.0.2.9", "200",
		},
		"PROXY from a stranger": {
			v1alpha1.AddressProxyProtocol, "127.0.0.3", "PROXY TCP4 192.0.2.9 192.0.2.1 5555 80\r\n", "", "127.0.0.3", "200",
		},
		"no PROXY": {v1alpha1.AddressProxyProtocol, "127.0.0.2", "", "", "", ""},
		"a header": {
			v1alpha1.AddressXForwardedFor, "127.0.0.2", "", "X-Forwarded-For: 198.51.100.1, 192.0.2.9\r\n",
			"198.51.100.1, 192.0.2.9, 127.0.0.2", "200",
		},
		"no header": {v1alpha1.AddressXForwardedFor, "127.0.0.2", "", "", "127.0.0.2", "200"},
		"a header from a stranger": {
			v1alpha1.AddressXForwardedFor, "127.0.0.3", "", "X-Forwarded-For: 192.0.2.9\r\n", "192.0.2.9, 127.0.0.3", "200",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Value
			got.Store("")
			n := start(t, func(w http.ResponseWriter, r *http.Request) {
				got.Store(strings.Join(r.Header.Values("X-Forwarded-For"), "|"))
				text(w, r)
			}, func(spec *v1alpha1.CacheNodeSpec) {
				spec.Listen.ClientAddress = &v1alpha1.ClientAddress{
					Source: tt.source, TrustedCIDRs: []v1alpha1.CIDR{"127.0.0.2/32", "203.0.113.0/24"},
				}
				spec.Logs.Access, spec.Logs.Format = "Stdout", "JSON"
			})
			status := ""
			connection, err := n.DialFrom(net.ParseIP(tt.from), "127.0.0.1:8080")
			must(t, err)
			_, err = fmt.Fprintf(connection, "%sGET /object HTTP/1.1\r\nHost: www.example.com\r\n%s\r\n", tt.preamble, tt.header)
			must(t, err)
			r, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err == nil && r.StatusCode != http.StatusBadRequest {
				status = fmt.Sprint(r.StatusCode)
				_ = r.Body.Close()
			}
			_ = connection.Close()
			if diff := cmp.Diff([]string{tt.want, tt.status}, []string{got.Load().(string), status}); diff != "" {
				t.Errorf("X-Forwarded-For at the origin, and the status (-want +got)\n%s", diff)
			}
			if tt.status == "" {
				return
			}
			client := map[string]string{"127.0.0.2": "192.0.2.9", "127.0.0.3": "127.0.0.3"}[tt.from]
			if tt.header == "" && tt.preamble == "" {
				client = tt.from
			}
			if got := logged(t, n)["client"]; got != client {
				t.Errorf("nginx takes %v for the client, want %s", got, client)
			}
		})
	}
}

// logged waits for a line of the access log in JSON, and parses it.
func logged(t *testing.T, n *nginxtest.Nginx) map[string]any {
	t.Helper()
	return loggedLines(t, n, 1)[0]
}

// TestJSONLog checks the fields of a line, and that no client can make the line invalid JSON. One header contains a
// byte that is not valid UTF-8.
func TestJSONLog(t *testing.T) {
	t.Parallel()
	n := start(t, text, inMemory, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Logs.Access, spec.Logs.Format = "Stdout", "JSON"
	})
	connection, err := n.Dial("127.0.0.1:8080")
	must(t, err)
	_, err = io.WriteString(connection, "GET /a?b=\"c\\d HTTP/1.1\r\nHost: www.example.com\r\n"+
		"User-Agent: \"}\t{\"status\":0\r\nReferer: \xff\r\n\r\n")
	must(t, err)
	_, err = http.ReadResponse(bufio.NewReader(connection), nil)
	must(t, err)
	must(t, connection.Close())
	got := logged(t, n)
	for _, f := range cache.LogFields {
		value, ok := got[f.Name]
		if _, isNumber := value.(float64); !ok || isNumber != f.IsNumber {
			t.Errorf("%s is %v", f.Name, value)
		}
	}
	if len(got) != len(cache.LogFields) {
		t.Errorf("%d fields, want %d", len(got), len(cache.LogFields))
	}
	if ok, _ := regexp.MatchString(`^[0-9]+[.][0-9]{3}$`, fmt.Sprint(got["originSeconds"])); !ok {
		t.Errorf("originSeconds is %q", got["originSeconds"])
	}
	for field, want := range map[string]any{
		"uri": `/a?b="c\d`, "status": 200.0, "cache": "MISS", "method": "GET", "host": "www.example.com",
		"userAgent": "\"}\t{\"status\":0", "protocol": "HTTP/1.1", "scheme": "http", "client": "127.0.0.1",
	} {
		if got[field] != want {
			t.Errorf("%s is %q, want %q", field, got[field], want)
		}
	}
}

// TestGzip checks that compression depends on type, size and client, that the cache keeps one copy of the object, and
// that a compressed response has a weak ETag and Vary.
func TestGzip(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	long := strings.Repeat("a text that repeats itself, ", 100)
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.Header().Set("ETag", `"a"`)
		body := long
		if r.URL.Query().Get("size") == "small" {
			body = "a"
		}
		_, _ = io.WriteString(w, body)
	}, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Listen.Gzip = v1alpha1.Gzip{
			Enabled: true, Types: []v1alpha1.MediaType{"text/plain", "text/css", "application/json"},
			MinSize: new(resource.MustParse("1Ki")),
		}
	})
	for query, want := range map[string]string{
		"type=text/html":            "gzip Accept-Encoding W/\"a\"",
		"type=application/json":     "gzip Accept-Encoding W/\"a\"",
		"type=image/jpeg":           " \"a\"",
		"type=text/css&size=small":  " \"a\"",
		"type=text/plain&size=long": "gzip Accept-Encoding W/\"a\"",
	} {
		for _, encoding := range []string{"gzip", "identity", "gzip"} {
			r, _ := ask(t, client, http.MethodGet, example+"?"+query, "Accept-Encoding: "+encoding)
			expected := want
			if encoding == "identity" {
				expected = strings.NewReplacer("gzip ", "", "W/", "").Replace(want)
			}
			got := strings.TrimPrefix(strings.Join([]string{
				r.Header.Get("Content-Encoding"), r.Header.Get("Vary"), r.Header.Get("ETag"),
			}, " "), " ")
			if got != expected {
				t.Errorf("%s for a client with %s: %q, want %q", query, encoding, got, expected)
			}
		}
	}
	if asked.Load() != 5 {
		t.Errorf("the origin was asked %d times for 5 objects", asked.Load())
	}
	r, _ := ask(t, client, http.MethodGet, example+"?type=text/html", "Accept-Encoding: gzip", `If-None-Match: W/"a"`)
	if r.StatusCode != http.StatusNotModified {
		t.Errorf("with the ETag of the compressed response, the status is %d", r.StatusCode)
	}
}
