package cache_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// seen is a request as the origin got it.
type seen struct {
	Host, Method, URI, Body string
	Header                  http.Header
}

// told returns an origin that answers with the request that it got.
func told(count *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Last-Modified", "Sun, 22 Nov 2026 00:00:00 GMT")
		_ = json.NewEncoder(w).Encode(seen{
			Host: r.Host, Method: r.Method, URI: r.RequestURI, Body: string(body), Header: r.Header,
		})
	})
}

// raw sends the text of a request without changes. Go's client would refuse or correct such a request. raw returns the
// cache status, and the request that the origin got.
func raw(t *testing.T, n *nginxtest.Nginx, request string) (cacheStatus string, origin seen) {
	t.Helper()
	conn, err := n.Dial("127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(reader, nil)
	}
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		return response.Status, seen{}
	}
	if err := json.NewDecoder(response.Body).Decode(&origin); err != nil {
		t.Fatal(err)
	}
	return response.Header.Get("X-Cache"), origin
}

// echo starts nginx with a changed spec, in front of an origin that answers with the request that it got.
func echo(t *testing.T, change func(*v1alpha1.CacheNodeSpec)) (*nginxtest.Nginx, *atomic.Int64) {
	t.Helper()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	change(&in.Spec)
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var disks []string
	for _, d := range in.Spec.Disks {
		disks = append(disks, d.Name)
	}
	n.Configure(config.Text, disks...)
	count := &atomic.Int64{}
	n.Serve("127.0.0.1:9000", told(count))
	n.Start()
	return n, count
}

// TestRequestHeaders checks, for each header of the table, whether the header reaches the origin as its class defines.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	n, _ := echo(t, func(*v1alpha1.CacheNodeSpec) {})
	const forged = "forged.example.com"
	for i, h := range cache.RequestHeaders {
		if h.Name == "Host" { // see TestForgedHost
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			value := forged
			request := "GET /%d HTTP/1.1\nHost: www.example.com\nConnection: close\n"
			switch h.Name {
			case "Content-Length":
				value = "0"
			case "Transfer-Encoding":
				value = "chunked"
			case "Expect":
				value = "100-continue"
			case "If-Match":
				value = "*"
			case "If-Unmodified-Since":
				value = "Thu, 01 Jan 2037 00:00:00 GMT"
			case "Range":
				value = "bytes=0-"
			case "Connection":
				request, value = strings.Replace(request, "Connection: close\n", "", 1), "close, "+forged
			}
			request = fmt.Sprintf(request, i) + h.Name + ": " + value + "\n\n"
			if h.Name == "Transfer-Encoding" {
				request += "0\n\n"
			}
			status, origin := raw(t, n, request)
			got := strings.Join(origin.Header.Values(h.Name), ",")
			wantStatus := "MISS"
			switch h.Class {
			case cache.Passed:
				if got != value {
					t.Errorf("the origin gets %q, want %q", got, value)
				}
			case cache.Bypass:
				if h.Name != "Content-Length" { // 0 is no body
					wantStatus = "BYPASS"
				}
			case cache.Set:
				if h.Name != "X-Forwarded-For" && strings.Contains(got, forged) {
					t.Errorf("the origin gets %q", got)
				}
			default:
				if got != "" {
					t.Errorf("the origin gets %q", got)
				}
			}
			if origin.Host == "" || status != wantStatus {
				t.Errorf("it is a %s, want %s", status, wantStatus)
			}
		})
	}
}

// TestForgedHost checks that, without Host in the key, the origin gets the same host whatever host a client asks for.
func TestForgedHost(t *testing.T) {
	t.Parallel()
	n, count := echo(t, func(s *v1alpha1.CacheNodeSpec) {
		s.Hosts, s.Origin.HostHeader = nil, new("origin.example.com")
		s.Cache.Key = []v1alpha1.KeyPart{v1alpha1.KeyRequestURI}
	})
	const request = "GET /a HTTP/1.1\nHost: %s\nConnection: close\nX-Forwarded-Host: %[1]s\n\n"
	status, origin := raw(t, n, fmt.Sprintf(request, "evil.example.com"))
	forwarded := origin.Header.Get("X-Forwarded-Host")
	if status != "MISS" || origin.Host != "origin.example.com" || forwarded != "" {
		t.Errorf("%s: the origin gets Host %q and X-Forwarded-Host %q", status, origin.Host, forwarded)
	}
	if status, _ := raw(t, n, fmt.Sprintf(request, "www.example.com")); status != "HIT" || count.Load() != 1 {
		t.Errorf("%s after %d requests to the origin", status, count.Load())
	}

	both, _ := echo(t, func(s *v1alpha1.CacheNodeSpec) { s.Hosts = []v1alpha1.Hostname{"a.example.com", "b.example.com"} })
	for _, host := range []string{"a.example.com", "b.example.com"} {
		status, origin := raw(t, both, fmt.Sprintf(request, host))
		if forwarded := origin.Header.Get("X-Forwarded-Host"); status != "MISS" || forwarded != host {
			t.Errorf("%s: with Host in the key the origin gets X-Forwarded-Host %q", status, forwarded)
		}
	}
}

// TestScheme checks that the origin gets the scheme only if it is in the key, or if only one scheme is possible.
func TestScheme(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key  []v1alpha1.KeyPart
		tls  bool
		want string
	}{
		"in the key": {
			[]v1alpha1.KeyPart{v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
			true,
			"proxy_set_header X-Forwarded-Proto $scheme;",
		},
		"one only": {
			[]v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
			false,
			"proxy_set_header X-Forwarded-Proto $scheme;",
		},
		"two in one entry": {
			[]v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
			true,
			`proxy_set_header X-Forwarded-Proto "";`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := decode(t, []byte(threeDisks))
			in.Spec.Cache.Key = tt.key
			if tt.tls {
				in.Spec.Listen.TLS = &v1alpha1.ListenTLS{SecretName: "a", Port: new(int32(8443))}
				in.Facts.Certificate = "0123"
			}
			config, err := cache.Render(in)
			if err != nil || !strings.Contains(config.Text, tt.want) {
				t.Errorf("no %q (%v)", tt.want, err)
			}
		})
	}
}

// TestBodies checks that a request with any body or credentials is neither stored nor answered from a cache.
func TestBodies(t *testing.T) {
	t.Parallel()
	n, _ := echo(t, func(*v1alpha1.CacheNodeSpec) {})
	for name, tt := range map[string]struct{ method, more, want string }{
		"nothing":                    {"GET", "\n", "MISS"},
		"no body":                    {"GET", "Content-Length: 0\n\n", "MISS"},
		"a body":                     {"GET", "Content-Length: 4\n\nevil", "BYPASS"},
		"a body in pieces":           {"GET", "Transfer-Encoding: chunked\n\n4\nevil\n0\n\n", "BYPASS"},
		"credentials":                {"GET", "Authorization: Basic x\n\n", "BYPASS"},
		"credentials that seem none": {"GET", "Authorization: 0\n\n", "BYPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/" + strings.ReplaceAll(name, " ", "-")
			request := tt.method + " " + path + " HTTP/1.1\nHost: www.example.com\nConnection: close\n"
			if status, _ := raw(t, n, request+tt.more); status != tt.want {
				t.Errorf("it is a %s, want %s", status, tt.want)
			}
			next := "MISS"
			if tt.want == "MISS" {
				next = "HIT"
			}
			if status, origin := raw(t, n, request+"\n"); status != next || strings.Contains(origin.Body, "evil") {
				t.Errorf("the next request is a %s, want %s; the origin got %q", status, next, origin.Body)
			}
		})
	}
}

// TestNormalizedPath checks that the origin gets the normalized path if the key has it. With methods that are cached,
// it then gets the arguments only if the key has them too.
func TestNormalizedPath(t *testing.T) {
	t.Parallel()
	const get, post = "GET %s HTTP/1.1\nHost: www.example.com\nConnection: close\n\n",
		"POST %s HTTP/1.1\nHost: www.example.com\nConnection: close\nContent-Length: 0\n\n"
	for name, tt := range map[string]struct {
		key   []v1alpha1.KeyPart
		asked map[string]string // from the client's URI to the URI that the origin gets
		post  string            // the URI that the origin gets for POST /a?x=1
	}{
		"as sent": {
			[]v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
			map[string]string{"/a//b/../c%2Fd?x=1": "/a//b/../c%2Fd?x=1"},
			"/a?x=1",
		},
		"with arguments": {
			[]v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyURI, v1alpha1.KeyArgs},
			map[string]string{
				"/a//b/../c%2Fd?x=1": "/a/c/d?x=1", "/%61b?x=%20": "/ab?x=%20", "/a%3Fb=c": "/a%3Fb=c",
				"/a%20b": "/a%20b",
			},
			"/a?x=1",
		},
		"without arguments": {
			[]v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyURI},
			map[string]string{"/a//b/../c%2Fd?x=1": "/a/c/d", "/a%3Fb=c?x": "/a%3Fb=c"},
			"/a?x=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := echo(t, func(s *v1alpha1.CacheNodeSpec) { s.Cache.Key = tt.key })
			for uri, want := range tt.asked {
				if status, origin := raw(t, n, fmt.Sprintf(get, uri)); origin.URI != want {
					t.Errorf("%s: the origin is asked for %q, want %q (%s)", uri, origin.URI, want, status)
				}
			}
			if _, origin := raw(t, n, fmt.Sprintf(post, "/a?x=1")); origin.URI != tt.post {
				t.Errorf("POST: the origin is asked for %q, want %q", origin.URI, tt.post)
			}
			if name != "without arguments" {
				return
			}
			cached, _ := echo(t, func(s *v1alpha1.CacheNodeSpec) {
				s.Cache.Key = append([]v1alpha1.KeyPart{v1alpha1.KeyMethod}, tt.key...)
				s.Cache.Methods = []v1alpha1.CacheMethod{"GET", "HEAD", "POST"}
			})
			if status, origin := raw(t, cached, fmt.Sprintf(post, "/a?x=1")); status != "MISS" || origin.URI != "/a" {
				t.Errorf("POST that is cached: a %s, for which the origin is asked for %q, want /a", status, origin.URI)
			}
		})
	}
}

// TestNamesOfDisks checks that a disk may have a name that has a meaning in nginx's maps.
func TestNamesOfDisks(t *testing.T) {
	t.Parallel()
	n, _ := echo(t, func(s *v1alpha1.CacheNodeSpec) {
		for i, name := range []string{"default", "hostnames", "include", "volatile", "none"} {
			d := s.Disks[0]
			d.Name = name
			s.Disks = append(s.Disks[:min(i, len(s.Disks))], d)
		}
	})
	if out, err := n.Test(); err != nil {
		t.Fatal(out)
	}
	for i := range 40 {
		request := fmt.Sprintf("GET /%d HTTP/1.1\nHost: www.example.com\nConnection: close\n\n", i)
		if status, _ := raw(t, n, request); status != "MISS" {
			t.Fatalf("it is a %s", status)
		}
	}
}
