package cache_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// securePort is the port of the pods for the listeners with TLS.
const securePort = 20002

// secureTable returns routes of a Gateway whose port 443 has four listeners with TLS and one certificate each. Another
// Gateway, with one listener, has its own port.
func secureTable() routes.Table {
	table := routes.Table{}
	for i, l := range []struct {
		host routes.Host
		port int32
	}{
		{"", securePort},
		{"second.org", securePort},
		{"*.wild.org", securePort},
		{"fourth.wild.org", securePort},
		{"shop.example.com", securePort + 1},
	} {
		r := routes.Route{
			Namespace: "team", Name: fmt.Sprint("site-", i), Site: fmt.Sprintf("%012d.%08d.site", i, i),
			Rules: []routes.Rule{{
				Matches:  []routes.Match{{Path: routes.Path{Value: "/a"}}},
				Backends: []routes.Backend{{Name: fmt.Sprint(i), Host: "127.0.0.1", Port: 9001 + int32(i)%2, Weight: 1}},
			}},
		}
		hosts := []routes.Host{l.host}
		if l.host == "" {
			hosts = []routes.Host{"first.org"}
		}
		table.Routes = append(table.Routes, r)
		table.Listeners = append(table.Listeners, routes.Listener{
			Gateway: "edge/main", Name: fmt.Sprint(i), Port: 443, PodPort: l.port, Host: l.host, Certificate: fmt.Sprint("c", i),
			Attached: []routes.Attachment{{Route: r.ID(), Hosts: hosts}},
		})
	}
	return table
}

// writeGatewayCertificate writes a certificate for a name to the file from which nginx reads the certificate with the
// ID.
func writeGatewayCertificate(
	t *testing.T, n *nginxtest.Nginx, authority *x509.Certificate, key *ecdsa.PrivateKey, id, name string,
) {
	t.Helper()
	c := issue(t, authority, key, name)
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})...)
	path := n.Root + layout.GatewayCertificate(id)
	must(t, os.WriteFile(path+".tmp", text, 0o644))
	must(t, os.Rename(path+".tmp", path))
}

// secureClient is a client that asks for a name in its TLS handshakes, and notes the name in the certificate.
type secureClient struct {
	t *testing.T
	n *nginxtest.Nginx
}

// ask sends a request over a connection of its own. It returns the name in the certificate, the status, and the header
// X-Cache with the body of a response with status 200.
func (c secureClient) ask(port int, serverName, host, path string) string {
	c.t.Helper()
	r, body := c.get(port, serverName, host, path)
	name := fmt.Sprint(append(r.TLS.PeerCertificates[0].DNSNames, "")[0], " ", r.StatusCode, " ", r.Proto)
	if r.StatusCode == http.StatusOK {
		name += " " + r.Header.Get("X-Cache") + " " + body
	}
	return name
}

// get sends a request over a connection of its own. It returns the response and its body.
func (c secureClient) get(port int, serverName, host, path string) (r *http.Response, body string) {
	c.t.Helper()
	client := c.n.Client()
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true, ServerName: serverName}
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	defer client.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), nil)
	must(c.t, err)
	request.Host = host
	r, err = client.Do(request)
	must(c.t, err)
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	must(c.t, err)
	return r, string(text)
}

// TestSecureListeners checks which certificate a client gets for a name, which listener answers, and that a renewed
// certificate is used without a reload.
func TestSecureListeners(t *testing.T) {
	t.Parallel()
	n := startRoutes(t, threeDisks, func(in *cache.Input) { in.Routes = secureTable() })
	authority, key := newAuthority(t)
	for id, name := range map[string]string{
		"c0": "any", "c1": "second.org", "c2": "*.wild.org", "c3": "fourth.wild.org", "c4": "shop.example.com",
		layout.NoCertificate: "none",
	} {
		writeGatewayCertificate(t, n, authority, key, id, name)
	}
	client := secureClient{t, n}
	for i, tt := range []struct{ serverName, host, want string }{
		{"first.org", "first.org", "any 200 HTTP/2.0 MISS 9001 first.org/a/fresh"},
		{"FIRST.org", "First.org", "any 200 HTTP/2.0 HIT 9001 first.org/a/fresh"},
		{"first.org", "first.org:443", "any 200 HTTP/2.0 BYPASS 9001 first.org:443/a/fresh"},
		{"first.org", "second.org", "any 421 HTTP/2.0"},
		{"first.org", "unknown.org", "any 404 HTTP/2.0"},
		{"", "first.org", "any 200 HTTP/2.0 HIT 9001 first.org/a/fresh"},
		{"second.org", "second.org", "second.org 200 HTTP/2.0 MISS 9002 second.org/a/fresh"},
		{"second.org", "first.org", "second.org 421 HTTP/2.0"},
		{"second.org", "unknown.org", "second.org 421 HTTP/2.0"},
		{"third.wild.org", "third.wild.org", "*.wild.org 200 HTTP/2.0 MISS 9001 third.wild.org/a/fresh"},
		{"third.wild.org", "fifth.wild.org", "*.wild.org 200 HTTP/2.0 MISS 9001 fifth.wild.org/a/fresh"},
		{"third.wild.org", "fourth.wild.org", "*.wild.org 421 HTTP/2.0"},
		{"fourth.wild.org", "fourth.wild.org", "fourth.wild.org 200 HTTP/2.0 MISS 9002 fourth.wild.org/a/fresh"},
		{"fourth.wild.org", "fifth.wild.org", "fourth.wild.org 421 HTTP/2.0"},
	} {
		if diff := cmp.Diff(tt.want, client.ask(securePort, tt.serverName, tt.host, "/a/fresh")); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i, diff)
		}
	}
	for i, tt := range []struct{ serverName, host, want string }{
		{"shop.example.com", "shop.example.com", "shop.example.com 200 HTTP/2.0 MISS 9001 shop.example.com/a/fresh"},
		{"second.org", "second.org", "none 421 HTTP/2.0"}, // a listener of another port
		{"", "shop.example.com", "none 421 HTTP/2.0"},
		{"second.org", "shop.example.com", "none 421 HTTP/2.0"},
	} {
		if diff := cmp.Diff(tt.want, client.ask(securePort+1, tt.serverName, tt.host, "/a/fresh")); diff != "" {
			t.Errorf("request %d to the other Gateway (-want +got):\n%s", i, diff)
		}
	}
	writeGatewayCertificate(t, n, authority, key, "c1", "renewed")
	nginxtest.Becomes(t, "renewed 200 HTTP/2.0 HIT 9002 second.org/a/fresh", func() string {
		return client.ask(securePort, "second.org", "second.org", "/a/fresh")
	})
}

// TestSecureMemoryTier checks that the memory tier answers over TLS.
func TestSecureMemoryTier(t *testing.T) {
	t.Parallel()
	n := startRoutes(t, threeDisks+nginxtest.MemoryTier("minUses: 1"), func(in *cache.Input) {
		in.Routes = secureTable()
	})
	authority, key := newAuthority(t)
	for _, id := range []string{"c0", layout.NoCertificate} {
		writeGatewayCertificate(t, n, authority, key, id, "first.org")
	}
	nginxtest.Becomes(t, "memory HIT 9001 first.org/a/fresh", func() string {
		r, body := secureClient{t, n}.get(securePort, "first.org", "first.org", "/a/fresh")
		return r.Header.Get("X-Cache-Disk") + " " + r.Header.Get("X-Cache") + " " + body
	})
}

// TestNoSessionAcrossGateways checks that a client that trusts the certificate of one Gateway does not resume its
// session at another Gateway, which may present a certificate that the client does not trust.
func TestNoSessionAcrossGateways(t *testing.T) {
	t.Parallel()
	n := startRoutes(t, threeDisks, func(in *cache.Input) { in.Routes = secureTable() })
	authority, key := newAuthority(t)
	for _, id := range []string{"c0", "c1", "c2", "c3", "c4", layout.NoCertificate} {
		writeGatewayCertificate(t, n, authority, key, id, "shop.example.com")
	}
	sessions := tls.NewLRUClientSessionCache(8)
	for i, port := range []int{securePort + 1, securePort, securePort + 1} {
		connection, err := n.Dial(fmt.Sprint("127.0.0.1:", port))
		must(t, err)
		client := tls.Client(connection, &tls.Config{
			InsecureSkipVerify: true, ServerName: "shop.example.com", ClientSessionCache: sessions,
		})
		_, err = io.WriteString(client, "GET /a HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n\r\n")
		must(t, err)
		_, err = io.ReadAll(client) // a session comes after the handshake
		must(t, err)
		if client.ConnectionState().DidResume {
			t.Errorf("connection %d resumes a session", i)
		}
		must(t, client.Close())
	}
}
