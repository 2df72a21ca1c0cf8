package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// introduction is the time between the two steps of a replacement: first all pods trust a new certificate, and later
// they use it. Within this time, the kubelets bring the certificate's authority to all pods.
const introduction = 24 * time.Hour

// WithPeers returns the data of a CacheNode's Secret together with the entries for connections between the CacheNode's
// pods. These entries are one certificate for all pods, its key, and the authorities that the pods trust. The authority
// that signs this certificate signs nothing else. Another authority signs the certificates of the operator and the
// agents, so a pod cannot act as the operator.
//
// A certificate is replaced in two steps, long before it expires. First, all pods get the authority of the next
// certificate. When the time introduction has passed, the pods get the next certificate itself. renewAt is the time at
// which to call WithPeers again.
func WithPeers(
	data, before map[string][]byte, name string, now time.Time,
) (with map[string][]byte, renewAt time.Time, err error) {
	with = maps.Clone(data)
	for _, key := range []string{
		naming.PeerCertificateKey, naming.PeerKeyKey, naming.PeerAuthorityKey,
		naming.NextPeerCertificateKey, naming.NextPeerKeyKey,
	} {
		delete(with, key)
		if value, ok := before[key]; ok {
			with[key] = value
		}
	}
	current, ok := usablePeer(with, naming.PeerCertificateKey, naming.PeerKeyKey, name, now)
	if !ok {
		delete(with, naming.NextPeerCertificateKey)
		delete(with, naming.NextPeerKeyKey)
		delete(with, naming.PeerAuthorityKey)
		err = issuePeer(with, naming.PeerCertificateKey, naming.PeerKeyKey, name, now)
		return with, now.Add(Lifetime - Renewal), err
	}
	if next, ok := usablePeer(with, naming.NextPeerCertificateKey, naming.NextPeerKeyKey, name, now); ok {
		shown := next.NotBefore.Add(skew + introduction)
		if now.Before(shown) {
			return with, shown, nil
		}
		with[naming.PeerCertificateKey], with[naming.PeerKeyKey] =
			with[naming.NextPeerCertificateKey], with[naming.NextPeerKeyKey]
		delete(with, naming.NextPeerCertificateKey)
		delete(with, naming.NextPeerKeyKey)
		return with, next.NotAfter.Add(-Renewal), nil
	}
	if renewal := current.NotAfter.Add(-Renewal); now.Before(renewal) {
		return with, renewal, nil
	}
	err = issuePeer(with, naming.NextPeerCertificateKey, naming.NextPeerKeyKey, name, now)
	return with, now.Add(introduction), err
}

// usablePeer returns the certificate under a key of the data. It returns false if the certificate cannot be read, has
// expired, is for another name, or is not signed by an authority that the pods trust.
func usablePeer(data map[string][]byte, certificate, key, name string, now time.Time) (*x509.Certificate, bool) {
	pair, err := tls.X509KeyPair(data[certificate], data[key])
	if err != nil {
		return nil, false
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[naming.PeerAuthorityKey])
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: authorities, CurrentTime: now, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return pair.Leaf, err == nil
}

// issuePeer adds a new certificate to the data, and puts its authority before the authorities that pods already trust.
// It keeps only the newest of these earlier authorities.
func issuePeer(data map[string][]byte, certificate, key, name string, now time.Time) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority, err := template("CacheNode pods of "+name, now)
	if err != nil {
		return err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	leaf, err := template("pod", now)
	if err != nil {
		return err
	}
	leaf.DNSNames, leaf.KeyUsage = []string{name}, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if data[certificate], data[key], err = sign(leaf, authority, authorityKey); err != nil {
		return err
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if old, _ := pem.Decode(data[naming.PeerAuthorityKey]); old != nil {
		trusted = bytes.Join([][]byte{trusted, pem.EncodeToMemory(old)}, nil)
	}
	data[naming.PeerAuthorityKey] = trusted
	return nil
}
