package cache_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestHTTPSOrigin runs a TLS origin. Its certificate is the right one, or comes from another authority, or is for
// another name.
func TestHTTPSOrigin(t *testing.T) {
	t.Parallel()
	authority, key := newAuthority(t)
	stranger, _ := newAuthority(t)
	tests := map[string]struct {
		bundle []byte // what nginx trusts
		name   string // what the certificate is for
		tls    string
		want   int
	}{
		"the right certificate": {
			authority.Raw, "origin.example.com", "{caBundle: {secret: {name: ca}}}", http.StatusOK,
		},
		"of another authority": {
			stranger.Raw, "origin.example.com", "{caBundle: {secret: {name: ca}}}", http.StatusBadGateway,
		},
		"for another name": {
			authority.Raw, "other.example.com", "{caBundle: {secret: {name: ca}}}", http.StatusBadGateway,
		},
		"another name, which is asked for": {
			authority.Raw, "other.example.com", "{caBundle: {secret: {name: ca}}, serverName: other.example.com}",
			http.StatusOK,
		},
		"anything, as nothing is checked": {nil, "other.example.com", "{verify: false}", http.StatusOK},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			in := decode(t, []byte(strings.Replace(threeDisks, "servers: [{host: 127.0.0.1, port: 9000}]",
				"scheme: https\n    hostHeader: origin.example.com\n"+
					"    servers: [{host: 127.0.0.1, port: 9000}]\n    tls: "+tt.tls, 1)))
			in.CABundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tt.bundle}))
			config, err := cache.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			n.Configure(config.Text, "disk1", "disk2", "disk3")
			for _, file := range config.Files {
				must(t, os.WriteFile(n.Root+file.Path, file.Content, 0o644))
			}
			certificate := issue(t, authority, key, tt.name)
			var asked string
			n.ServeTLS("127.0.0.1:9000", &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				asked = hello.ServerName
				return certificate, nil
			}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
			n.Start()
			response, body := get(t, n.Client(), "www.example.com", "/")
			if response.StatusCode != tt.want {
				t.Errorf("status is %d, want %d", response.StatusCode, tt.want)
			}
			if tt.want == http.StatusOK && body != "origin.example.com" {
				t.Errorf("the origin was asked for host %q", body)
			}
			names := map[bool]string{true: "other.example.com", false: "origin.example.com"}
			if want := names[strings.Contains(tt.tls, "serverName")]; asked != want {
				t.Errorf("the server name in TLS was %q, want %q", asked, want)
			}
		})
	}
}

// newAuthority creates a certificate authority with a subject of its own.
func newAuthority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, NotAfter: nginxtest.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func issue(t *testing.T, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: nginxtest.Now().Add(time.Hour), DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
