package purgeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	certutil "k8s.io/client-go/util/cert"
)

// listens runs a listener until the test ends.
func listens(t *testing.T, l *Listener) {
	t.Helper()
	l.Address = freeAddress(t)
	l.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		if l.Ready(nil) == nil {
			t.Error("it is ready after its end")
		}
	})
	isReady(t, l)
}

// ask sends a request with the given TLS settings.
func ask(t *testing.T, l *Listener, config *tls.Config) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + l.Address)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestCertificate checks that clients can verify the certificate from the files.
func TestCertificate(t *testing.T) {
	t.Parallel()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("purges.example.com", []net.IP{{127, 0, 0, 1}}, nil)
	must(t, err)
	l := &Listener{CertFile: filepath.Join(t.TempDir(), "tls.crt"), KeyFile: filepath.Join(t.TempDir(), "tls.key")}
	must(t, os.WriteFile(l.CertFile, certificate, 0o600))
	must(t, os.WriteFile(l.KeyFile, key, 0o600))
	listens(t, l)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(certificate)
	if err := ask(t, l, &tls.Config{RootCAs: authorities}); err != nil {
		t.Error(err)
	}
	if err := ask(t, l, &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		t.Error("a client that trusts nobody trusts the certificate")
	}
}

// TestOwnCertificate checks which versions of TLS the server accepts, and that the server makes its own certificate if
// it gets no files.
func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	l := &Listener{}
	listens(t, l)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		err := ask(t, l, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: error %v", tls.VersionName(version), err)
		}
	}
}

// TestNoCertificate checks that a listener does not start if its files are missing.
func TestNoCertificate(t *testing.T) {
	t.Parallel()
	l := &Listener{Address: freeAddress(t), CertFile: "missing.crt", KeyFile: "missing.key"}
	if err := l.Start(t.Context()); err == nil {
		t.Error("it starts without its certificate")
	}
}
