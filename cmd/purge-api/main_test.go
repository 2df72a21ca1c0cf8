package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestRun checks that the command serves requests, metrics and probes, and ends with its context.
func TestRun(t *testing.T) {
	config := apiserver.Start(t)
	requests, metrics, probes := freeAddress(t), freeAddress(t), freeAddress(t)
	authority, folder := certificate(t, "metrics.example.com")
	o, err := parse([]string{
		"--bind-address=" + requests, "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes,
		"--metrics-cert-dir=" + folder,
	}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o, config) }()
	await.Until(t, func() string {
		if got := status(t, "http://"+probes+"/readyz"); got != http.StatusOK {
			return fmt.Sprintf("it does not become ready: status %d", got)
		}
		return ""
	})
	for url, want := range map[string]int{
		"http://" + probes + "/healthz":                http.StatusOK,
		"https://" + requests + "/v1/purges/default/a": http.StatusUnauthorized,
		"https://" + metrics + "/metrics":              http.StatusUnauthorized,
	} {
		if got := status(t, url); got != want {
			t.Errorf("%s: status %d, want %d", url, got, want)
		}
	}
	// A client that scrapes the metrics can check which server receives its token.
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority, ServerName: "metrics.example.com"}}
	if connection, err := dialer.DialContext(t.Context(), "tcp", metrics); err != nil {
		t.Errorf("the certificate of the metrics: %v", err)
	} else {
		_ = connection.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// certificate creates a certificate for a name. It returns the authority of the certificate, and a folder with the
// certificate and its key.
func certificate(t *testing.T, name string) (authority *x509.CertPool, folder string) {
	t.Helper()
	chain, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder, authority = t.TempDir(), x509.NewCertPool()
	authority.AppendCertsFromPEM(chain)
	for name, text := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return authority, folder
}

// status sends a GET request and returns the status code of the response; 0 if there is no response.
func status(t *testing.T, url string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
