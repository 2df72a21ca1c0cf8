package nginxtest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/await"
)

// Client returns an HTTP client inside nginx's network namespace.
func (n *Nginx) Client() *http.Client { return n.ClientFrom(nil) }

// ClientFrom returns a client that connects from an address of the loopback device, such as 127.0.0.2; nil means any
// address.
func (n *Nginx) ClientFrom(local net.IP) *http.Client {
	dial := func(_ context.Context, _, address string) (net.Conn, error) { return n.dial(local, address) }
	return &http.Client{Timeout: await.Patience, Transport: &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 64,
		// An internal server of nginx closes a connection that has had no request for five seconds. If the first request on a
		// connection fails for this reason, net/http does not send it again.
		IdleConnTimeout: 4 * time.Second,
	}}
}

// Dial connects from inside nginx's network namespace, so that a test can send bytes that an HTTP client would not
// send. For a socket in layout.RunDir, the address is the name of the socket and any port, such as
// nginx-gateway.sock:80.
func (n *Nginx) Dial(address string) (net.Conn, error) { return n.dial(nil, address) }

// DialFrom does the same as Dial, but connects from an address of the loopback device.
func (n *Nginx) DialFrom(local net.IP, address string) (net.Conn, error) {
	return n.dial(local, address)
}

func (n *Nginx) dial(local net.IP, address string) (connection net.Conn, err error) {
	if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".sock") {
		return net.Dial("unix", n.Root+layout.RunDir+"/"+host)
	}
	dialer := &net.Dialer{Timeout: await.Patience, LocalAddr: &net.TCPAddr{IP: local}}
	err = n.inside(func() (err error) {
		connection, err = dialer.Dial("tcp", address)
		return err
	})
	return connection, err
}

// Serve runs an origin inside nginx's network namespace until the test ends.
func (n *Nginx) Serve(address string, handler http.Handler) {
	n.t.Helper()
	n.serve(n.Listen(address), handler)
}

// ServeTLS runs an origin that speaks TLS.
func (n *Nginx) ServeTLS(address string, config *tls.Config, handler http.Handler) {
	n.t.Helper()
	n.serve(tls.NewListener(n.Listen(address), config), handler)
}

// Listen listens for connections inside nginx's network namespace.
func (n *Nginx) Listen(address string) net.Listener {
	n.t.Helper()
	n.namespace()
	var listener net.Listener
	must(n.t, n.inside(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	return listener
}

func (n *Nginx) serve(listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: await.Patience}
	go func() { _ = server.Serve(listener) }()
	n.t.Cleanup(func() { _ = server.Close() })
}

// ListenPacket listens inside nginx's network namespace.
func (n *Nginx) ListenPacket(address string) net.PacketConn {
	n.t.Helper()
	n.namespace()
	var connection net.PacketConn
	must(n.t, n.inside(func() (err error) {
		connection, err = net.ListenPacket("udp", address)
		return err
	}))
	return connection
}
