// Package pki issues the certificates with which the operator and the agents of one CacheNode authenticate each other.
// Each set of certificates has its own authority. The authority's key is discarded after it has signed the two
// certificates, so nobody can sign a third certificate.
//
// A set is replaced long before it expires. Until the kubelets have brought the new set to every pod, both sides
// trust both authorities. During this time, the operator keeps its old certificate for agents that still ask for it.
//
// Of the project, the package imports only naming. New certificates of the operator or of its agents belong here.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// Lifetime is the time for which a set is valid.
	Lifetime = 90 * 24 * time.Hour
	// Renewal is the time for which a set is still valid when it is replaced.
	Renewal = 30 * 24 * time.Hour
	// skew is the maximum difference between the clocks of two machines.
	skew = time.Hour
)

// Renew returns the data of the agents' Secret. It returns a new set if there is none, or if the existing set expires
// soon, is for another name, or cannot be read. renewAt is the time at which to call Renew again.
func Renew(
	data map[string][]byte, name string, now time.Time,
) (renewed map[string][]byte, renewAt time.Time, err error) {
	if end, ok := usable(data, name, now); ok {
		return data, end.Add(-Renewal), nil
	}
	renewed, err = issue(name, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	if _, err := tls.X509KeyPair(data[naming.ClientCertificateKey], data[naming.ClientKeyKey]); err == nil {
		renewed[naming.OldClientCertificateKey] = data[naming.ClientCertificateKey]
		renewed[naming.OldClientKeyKey] = data[naming.ClientKeyKey]
		old, _ := pem.Decode(data[naming.AuthorityKey]) // the first one is the newest
		if old != nil {
			renewed[naming.AuthorityKey] = append(renewed[naming.AuthorityKey], pem.EncodeToMemory(old)...)
		}
	}
	return renewed, now.Add(Lifetime - Renewal), nil
}

// usable reports whether a set is for the name and need not be replaced yet. end is the time at which the set
// expires.
func usable(data map[string][]byte, name string, now time.Time) (end time.Time, ok bool) {
	server, err := tls.X509KeyPair(data[naming.ServerCertificateKey], data[naming.ServerKeyKey])
	if err != nil {
		return time.Time{}, false
	}
	client, err := tls.X509KeyPair(data[naming.ClientCertificateKey], data[naming.ClientKeyKey])
	if err != nil {
		return time.Time{}, false
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[naming.AuthorityKey])
	for _, c := range []struct {
		certificate *x509.Certificate
		usage       x509.ExtKeyUsage
		name        string
	}{{server.Leaf, x509.ExtKeyUsageServerAuth, name}, {client.Leaf, x509.ExtKeyUsageClientAuth, ""}} {
		options := x509.VerifyOptions{
			Roots: authorities, CurrentTime: now.Add(Renewal), DNSName: c.name, KeyUsages: []x509.ExtKeyUsage{c.usage},
		}
		if _, err := c.certificate.Verify(options); err != nil {
			return time.Time{}, false
		}
	}
	return server.Leaf.NotAfter, true
}

// issue returns a new set of certificates.
func issue(name string, now time.Time) (map[string][]byte, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority, err := template("CacheNode agents of "+name, now)
	if err != nil {
		return nil, err
	}
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{naming.AuthorityKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	for _, c := range []struct {
		subject, certificate, key string
		usage                     x509.ExtKeyUsage
		names                     []string
	}{
		{"agent", naming.ServerCertificateKey, naming.ServerKeyKey, x509.ExtKeyUsageServerAuth, []string{name}},
		{naming.OperatorSubject, naming.ClientCertificateKey, naming.ClientKeyKey, x509.ExtKeyUsageClientAuth, nil},
	} {
		leaf, err := template(c.subject, now)
		if err != nil {
			return nil, err
		}
		leaf.DNSNames, leaf.ExtKeyUsage, leaf.KeyUsage = c.names, []x509.ExtKeyUsage{c.usage}, x509.KeyUsageDigitalSignature
		if data[c.certificate], data[c.key], err = sign(leaf, authority, authorityKey); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func template(commonName string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("%s %x", commonName, serial.Bytes()[:4])},
		NotBefore: now.Add(-skew), NotAfter: now.Add(Lifetime),
	}, nil
}

func sign(leaf, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, private.Public(), authorityKey)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// Client returns the operator's TLS configuration for the agents. It uses the newest certificate that is signed by an
// authority that the agent accepts.
func Client(data map[string][]byte, name string) (*tls.Config, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(data[naming.AuthorityKey]) {
		return nil, errors.New("no authority in the agents' Secret")
	}
	var certificates []tls.Certificate
	for _, pair := range [][2]string{
		{naming.ClientCertificateKey, naming.ClientKeyKey},
		{naming.OldClientCertificateKey, naming.OldClientKeyKey},
	} {
		if certificate, err := tls.X509KeyPair(data[pair[0]], data[pair[1]]); err == nil {
			certificates = append(certificates, certificate)
		}
	}
	if len(certificates) == 0 {
		return nil, errors.New("no client certificate in the agents' Secret")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: authorities, ServerName: name,
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for i := range certificates {
				if request.SupportsCertificate(&certificates[i]) == nil {
					return &certificates[i], nil
				}
			}
			return &certificates[0], nil
		},
	}, nil
}
