package cache_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/pki"
)

// TestPeerPorts checks that the ports that spec.listen must not use are the ports of the servers for other pods.
func TestPeerPorts(t *testing.T) {
	got := append(slices.Clone(effective.PeerPorts), effective.RoutePeerPorts...)
	want := []int32{layout.LookupPort, layout.PeerPort, layout.RoutesLookupPort, layout.RoutesPeerPort}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-layout +tuning):\n%s", diff)
	}
}

// certificates returns the data of the Secrets of a CacheNode's agents and of its pods.
func certificates(t *testing.T) (agents, peers map[string][]byte) {
	t.Helper()
	agents, _, err := pki.Renew(nil, naming.AgentName("default", "edge"), nginxtest.Now())
	must(t, err)
	peers, _, err = pki.WithPeers(agents, nil, naming.PeerName("default", "edge"), nginxtest.Now())
	must(t, err)
	return agents, peers
}

// trusting gives a pod the certificates in the Secret of the pods.
func trusting(secret map[string][]byte, in *cache.Input, write func(path string, content []byte)) {
	in.Facts.Fleet.Certificate = certificateHash
	write(layout.PeerCertificate(certificateHash), secret[naming.PeerCertificateKey])
	write(layout.PeerKey(certificateHash), secret[naming.PeerKeyKey])
	write(layout.PeerAuthority(certificateHash), secret[naming.PeerAuthorityKey])
}

// TestPeersTrust checks that pods talk to each other over TLS, and that their ports serve nobody without a certificate
// of their own authority: neither a stranger nor a holder of the operator's certificate for agents.
func TestPeersTrust(t *testing.T) {
	t.Parallel()
	agents, secret := certificates(t)
	yaml := strings.Replace(fastSharded(""), `, tls: "Off"`, "", 1)
	p := newPods(t, 2, yaml, func(_ int, in *cache.Input, write func(path string, content []byte)) {
		trusting(secret, in, write)
	})
	hops := map[string]int{}
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"} {
		p.get(t, 0, path)
		hops[how(p.get(t, 1, path))]++
		if n := p.requests(path); n != 1 {
			t.Errorf("%s: the origin was asked %d times", path, n)
		}
	}
	if hops["peer HIT"] == 0 || hops["none HIT"] == 0 {
		t.Errorf("hops: %v", hops)
	}

	operator, err := tls.X509KeyPair(agents[naming.ClientCertificateKey], agents[naming.ClientKeyKey])
	must(t, err)
	pod, err := tls.X509KeyPair(secret[naming.PeerCertificateKey], secret[naming.PeerKeyKey])
	must(t, err)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(secret[naming.PeerAuthorityKey])
	for name, tt := range map[string]struct {
		certificates []tls.Certificate
		want         int
	}{
		"a stranger": {nil, 400}, "the operator": {[]tls.Certificate{operator}, 400}, "a pod": {[]tls.Certificate{pod}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			for _, address := range []string{"https://127.0.0.1:8088", "https://127.0.0.1:8089"} {
				client := p.nginx[0].Client()
				client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{
					Certificates: tt.certificates, RootCAs: authorities, ServerName: naming.PeerName("default", "edge"),
				}
				want := tt.want
				if want == 200 && strings.HasSuffix(address, "8088") {
					want = 470 // the object is on no disk
				}
				r, _ := ask(t, client, http.MethodGet, address+"/unknown", "X-CacheNode-Scheme: http")
				if r.StatusCode != want {
					t.Errorf("%s: status %d, want %d", address, r.StatusCode, want)
				}
			}
		})
	}
	plain, _ := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8089/unknown")
	if plain.StatusCode != 400 {
		t.Errorf("in plain text: status %d", plain.StatusCode)
	}
}
