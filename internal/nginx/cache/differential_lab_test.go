package cache_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
)

// differentialLab contains the pods and the origin for a differentialWay.
type differentialLab struct {
	*pods
	origin   *differential.Origin
	failures *atomic.Int64
	// http2 and http3 are clients of each pod, if it speaks TLS.
	http2, http3 []*http.Client
}

// start starts the pods in the state that they have in the first half of the cases.
func (w differentialWay) start(t *testing.T) *differentialLab {
	t.Helper()
	l := &differentialLab{pods: &pods{yaml: w.yaml, edit: patient, asked: map[string]int{}}}
	l.origin, l.failures = &differential.Origin{}, &atomic.Int64{}
	l.change = func(_ int, in *cache.Input, _ func(path string, content []byte)) {
		in.Facts.Scripts = !w.noScripts
		if w.port == routedPort {
			in.Routes = differentialRoutes()
		}
		if in.Spec.Listen.TLS != nil {
			in.Facts.Certificate = certificateHash
		}
	}
	first := w.fleet
	if w.before != nil {
		l.yaml, first = w.before.yaml, w.before.fleet
	}
	for range w.pods {
		l.nginx = append(l.nginx, nginxtest.New(t))
	}
	l.addresses = nginxtest.Connect(t, l.nginx...)
	for i, n := range l.nginx {
		n.Serve("127.0.0.1:9000", l.origin)
		n.Mkdir(layout.MemoryTierDir)
		writeCertificate(t, n)
		l.configure(t, i, first)
		n.Start()
		l.clients = append(l.clients, n.Client())
		if strings.Contains(w.yaml, "http3: true") {
			l.http2, l.http3 = append(l.http2, overHTTP2(t, n)), append(l.http3, overHTTP3(t, n))
		}
	}
	if w.standIn {
		for _, pid := range l.nginx[w.pods-1].Processes() {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	return l
}

// differentialClient sends the requests of one case.
type differentialClient struct {
	differential.Client
	l    *differentialLab
	path string
}

// client returns a client for a path, and for a port of the pods.
func (l *differentialLab) client(path string, port int) *differentialClient {
	dial := func(pod int) (net.Conn, error) { return l.nginx[pod].Dial(fmt.Sprint("127.0.0.1:", port)) }
	return &differentialClient{differential.Client{Host: "www.example.com", Dial: dial}, l, path}
}

func (c *differentialClient) do(q differential.Request) differential.Response {
	const secure = "https://www.example.com:8443"
	switch q.Protocol {
	case differential.HTTP2:
		return differential.DoWith(context.Background(), c.l.http2[q.Pod], secure+c.path, q)
	case differential.HTTP3:
		return differential.DoWith(context.Background(), c.l.http3[q.Pod], secure+c.path, q)
	case differential.HTTP10, differential.HTTP11:
	}
	return c.Do(c.path, q)
}

// unverified returns TLS settings that accept a certificate that no authority has signed.
func unverified() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.com"}
}

// asItComes returns a client that changes nothing of a response.
func asItComes(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func overHTTP2(t *testing.T, n *nginxtest.Nginx) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return n.Dial("127.0.0.1:8443") },
		DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: unverified(),
	}
	t.Cleanup(transport.CloseIdleConnections)
	return asItComes(transport)
}

func overHTTP3(t *testing.T, n *nginxtest.Nginx) *http.Client {
	t.Helper()
	socket := &quic.Transport{Conn: n.ListenPacket("127.0.0.1:0")}
	t.Cleanup(func() { _ = socket.Close() })
	transport := &http3.Transport{
		DisableCompression: true, TLSClientConfig: unverified(),
		Dial: func(ctx context.Context, _ string, config *tls.Config, options *quic.Config) (*quic.Conn, error) {
			return socket.Dial(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}, config, options)
		},
	}
	t.Cleanup(func() { _ = transport.Close() })
	return asItComes(transport)
}
