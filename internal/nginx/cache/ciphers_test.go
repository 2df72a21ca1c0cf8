package cache_test

import (
	"crypto/tls"
	"fmt"
	"slices"
	"testing"
)

// TestCiphers checks by a handshake for each cipher suite that clients get forward secrecy and authenticated
// encryption.
func TestCiphers(t *testing.T) {
	t.Parallel()
	n := start(t, text, overTLS) // the key is an RSA key, which allows all of these suites except those with ECDSA
	shake := func(config *tls.Config) error {
		t.Helper()
		connection, err := n.Dial("127.0.0.1:8443")
		must(t, err)
		defer func() { _ = connection.Close() }()
		config.InsecureSkipVerify, config.ServerName = true, "www.example.com"
		return tls.Client(connection, config).HandshakeContext(t.Context())
	}
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		want := map[uint16]bool{
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:         true,
			tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:         true,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:   true,
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:       false, // the certificate has no ECDSA key
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       false,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: false,
		}[suite.ID]
		err := shake(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		if (err == nil) != want {
			t.Errorf("%s: accepted %t, want %t: %v", suite.Name, err == nil, want, err)
		}
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := &tls.Config{MinVersion: version, MaxVersion: version}
		if err := shake(config); (err == nil) != want {
			t.Error(fmt.Sprintf("%s: accepted %t, want %t:", tls.VersionName(version), err == nil, want), err)
		}
	}
}
