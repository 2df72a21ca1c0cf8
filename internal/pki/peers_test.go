package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

const peersName = "edge.default.peer.cachenode.io"

// trusts returns true if a pod with the Secret data in pod trusts the certificate of a pod with the data in shows.
func trusts(t *testing.T, pod, shows map[string][]byte, at time.Time) bool {
	t.Helper()
	pair, err := tls.X509KeyPair(shows[naming.PeerCertificateKey], shows[naming.PeerKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pod[naming.PeerAuthorityKey]) {
		t.Fatal("no authority")
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{
			Roots: authorities, CurrentTime: at, DNSName: peersName, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return false
		}
	}
	return true
}

// TestWithPeers follows the certificates of pods over three years. At each step, pods with the current data and pods
// with the data of six hours ago must trust each other.
func TestWithPeers(t *testing.T) {
	agents, _, err := Renew(nil, name, now)
	if err != nil {
		t.Fatal(err)
	}
	var data map[string][]byte
	shown := map[string]bool{}
	before := data
	for at := now; at.Before(now.AddDate(3, 0, 0)); at = at.Add(6 * time.Hour) {
		var again time.Time
		data, again, err = WithPeers(agents, data, peersName, at)
		if err != nil {
			t.Fatal(err)
		}
		if !again.After(at) {
			t.Fatalf("%s: look again at %s", at, again)
		}
		if before == nil {
			before = data
		}
		for _, pair := range [][2]map[string][]byte{{data, data}, {data, before}, {before, data}} {
			if !trusts(t, pair[0], pair[1], at) {
				t.Fatalf("%s: pods do not trust each other", at)
			}
		}
		if at.Sub(now)%(24*time.Hour) == 0 {
			shown[string(data[naming.PeerCertificateKey])] = true
		}
		before = data
	}
	if len(shown) < 15 || len(shown) > 22 {
		t.Errorf("%d certificates in three years", len(shown))
	}
	if !bytes.Equal(data[naming.ServerCertificateKey], agents[naming.ServerCertificateKey]) {
		t.Error("the agents' certificate has changed")
	}
}

// TestPeersAreNotTheOperator checks that agents and pods trust different authorities.
func TestPeersAreNotTheOperator(t *testing.T) {
	agents, _, err := Renew(nil, name, now)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := WithPeers(agents, nil, peersName, now)
	if err != nil {
		t.Fatal(err)
	}
	swapped := maps.Clone(data)
	swapped[naming.PeerAuthorityKey] = data[naming.AuthorityKey]
	if trusts(t, swapped, data, now) {
		t.Error("an agent takes a pod for the operator")
	}
	renewed, _, err := WithPeers(agents, map[string][]byte{naming.PeerCertificateKey: []byte("x")}, peersName, now)
	if err != nil || !trusts(t, renewed, renewed, now) {
		t.Errorf("a damaged certificate is not replaced: %v", err)
	}
}
