package gateways

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Limits of a certificate, in bytes of PEM. A usual chain has about 5 kB, and a usual key less than 4 kB. The lengths
// of RSA keys are those that OpenSSL and public authorities accept; a longer key would make each handshake expensive
// for all sites of the pods.
const (
	maxChain, maxKey = 24 << 10, 8 << 10
	minRSA, maxRSA   = 2048, 4096
	// maxNames is the maximum number of names in a certificate.
	maxNames = 250
)

// Certificate is the certificate in a Secret.
type Certificate struct {
	// PEM contains the key and the chain of certificates, in a form that this package has written. It is nil if there is a
	// problem.
	PEM []byte
	// Problem says why the certificate cannot be used; "" if it can.
	Problem string
}

// NewCertificate returns the certificate in a Secret of type kubernetes.io/tls.
func NewCertificate(secret *corev1.Secret) Certificate {
	text, err := certificatePEM(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return Certificate{Problem: err.Error()}
	}
	return Certificate{PEM: text}
}

// certificatePEM returns a key and its chain of certificates in one text. It keeps nothing else that the texts contain.
func certificatePEM(chain, key []byte) ([]byte, error) {
	if len(chain) > maxChain || len(key) > maxKey {
		return nil, fmt.Errorf("tls.crt has more than %d bytes, or tls.key has more than %d", maxChain, maxKey)
	}
	if err := CheckKey(key); err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key: %w", err)
	}
	private, err := usableKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	var text bytes.Buffer
	blocks := []pem.Block{{Type: "PRIVATE KEY", Bytes: der}}
	for _, c := range pair.Certificate {
		parsed, err := x509.ParseCertificate(c)
		if err == nil {
			err = usableCertificate(parsed)
		}
		if err != nil {
			return nil, fmt.Errorf("tls.crt: %w", err)
		}
		blocks = append(blocks, pem.Block{Type: "CERTIFICATE", Bytes: c})
	}
	for i := range blocks {
		_ = pem.Encode(&text, &blocks[i]) // a buffer accepts everything, and the blocks have no headers
	}
	return text.Bytes(), nil
}

// usableCertificate returns an error for a certificate that OpenSSL refuses to present, and for one with so many names
// that it would take much memory in each worker.
func usableCertificate(c *x509.Certificate) error {
	if n := len(c.DNSNames) + len(c.IPAddresses) + len(c.URIs) + len(c.EmailAddresses); n > maxNames {
		return fmt.Errorf("a certificate with %d names: at most %d are supported", n, maxNames)
	}
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSA {
		return fmt.Errorf("a certificate in the chain has an RSA key of %d bits: use at least %d", key.N.BitLen(), minRSA)
	}
	return nil
}

// usableKey returns the key in a form that contains only what was checked. It returns an error for a key that clients
// or nginx do not accept, or that makes handshakes expensive.
func usableKey(private any) (any, error) {
	switch key := private.(type) {
	case *rsa.PrivateKey:
		return usableRSA(key)
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P224() {
			return nil, fmt.Errorf("the curve %s is not supported: use P-256", key.Params().Name)
		}
	case ed25519.PrivateKey:
	default:
		return nil, fmt.Errorf("a key of type %T is not supported: use RSA or ECDSA", private)
	}
	return private, nil
}

// rsaKey is an RSA key in ASN.1 (RFC 8017, appendix A.1.2).
type rsaKey struct {
	Version                                           int
	Modulus, PublicExponent, PrivateExponent          *big.Int
	Prime1, Prime2, Exponent1, Exponent2, Coefficient *big.Int      `asn1:"optional"`
	More                                              asn1.RawValue `asn1:"optional"`
}

// CheckKey returns an error for an RSA key whose numbers do not have the lengths of a usual key. With a prime that is
// much longer than the modulus, reading the key would take seconds. Any other text passes, because others check it.
func CheckKey(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		der := block.Bytes
		var outer struct { // a key in PKCS #8
			Version   int
			Algorithm asn1.RawValue
			Key       []byte
		}
		if block.Type == "PRIVATE KEY" {
			if _, err := asn1.Unmarshal(der, &outer); err != nil {
				continue
			}
			der = outer.Key
		}
		var key rsaKey
		if _, err := asn1.Unmarshal(der, &key); err != nil {
			continue // another kind of key
		}
		n := key.Modulus.BitLen()
		if n < minRSA || n > maxRSA {
			return fmt.Errorf("an RSA key of %d bits: use %d to %d bits, or ECDSA", n, minRSA, maxRSA)
		}
		for _, number := range []*big.Int{
			key.PublicExponent, key.PrivateExponent, key.Prime1, key.Prime2, key.Exponent1, key.Exponent2, key.Coefficient,
		} {
			if number == nil || number.Sign() <= 0 || number.BitLen() > n {
				return errors.New("a number of the RSA key is missing, or is longer than its modulus")
			}
		}
		if len(key.More.FullBytes) > 0 {
			return errors.New("an RSA key must have two primes")
		}
	}
	return nil
}

// usableRSA returns an RSA key whose other values follow from its two primes. A key may contain primes that do not
// belong to its modulus, and OpenSSL would compute with them in each handshake.
func usableRSA(key *rsa.PrivateKey) (*rsa.PrivateKey, error) {
	if len(key.Primes) != 2 {
		return nil, errors.New("an RSA key must have two primes")
	}
	if product := new(big.Int).Mul(key.Primes[0], key.Primes[1]); product.Cmp(key.N) != 0 {
		return nil, errors.New("the primes of the RSA key do not belong to its modulus")
	}
	clean := &rsa.PrivateKey{PublicKey: key.PublicKey, D: key.D, Primes: key.Primes}
	clean.Precompute()
	return clean, clean.Validate()
}

// CertificateRefs returns the Secrets to which listeners of the fleet's Gateways refer and may refer, each once.
func (s State) CertificateRefs() (names []types.NamespacedName) {
	seen := map[types.NamespacedName]bool{}
	for _, g := range s.Allowed() {
		for _, l := range g.Spec.Listeners {
			if l.Protocol != gw.HTTPSProtocolType || unsupportedTLS(&g, l) != nil {
				continue
			}
			if name, problem := s.secretOf(&g, l); problem == nil && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// certificateID returns the ID of the certificate in a Secret.
func (s State) certificateID(secret types.NamespacedName) string {
	return naming.Certificate(s.Namespaces[secret.Namespace].UID, secret)
}

// unsupportedTLS returns a problem if a listener, or its Gateway, has TLS settings that are not supported; nil
// otherwise.
func unsupportedTLS(g *gw.Gateway, l gw.Listener) *problem {
	switch {
	case l.TLS == nil || ptr.Deref(l.TLS.Mode, gw.TLSModeTerminate) != gw.TLSModeTerminate:
		return problemf(gw.ListenerReasonUnsupportedValue,
			"tls.mode: use Terminate, with a certificate in tls.certificateRefs")
	case len(l.TLS.CertificateRefs) != 1:
		return problemf(gw.ListenerReasonUnsupportedValue, "tls.certificateRefs: exactly one certificate is supported")
	case len(l.TLS.Options) > 0:
		return problemf(gw.ListenerReasonUnsupportedValue, "tls.options: no option is supported")
	case g.Spec.TLS != nil && g.Spec.TLS.Frontend != nil:
		return problemf(gw.ListenerReasonUnsupportedValue,
			"spec.tls.frontend of the Gateway: certificates of clients are not supported")
	}
	return nil
}

// secretOf returns the name of the Secret to which a listener with TLS refers, or a problem if it must not refer to it.
func (s State) secretOf(g *gw.Gateway, l gw.Listener) (types.NamespacedName, *problem) {
	ref := l.TLS.CertificateRefs[0]
	name := types.NamespacedName{
		Namespace: string(ptr.Deref(ref.Namespace, gw.Namespace(g.Namespace))), Name: string(ref.Name),
	}
	group, kind := ptr.Deref(ref.Group, ""), ptr.Deref(ref.Kind, "Secret")
	if group != "" || kind != "Secret" {
		return name, problemf(gw.ListenerReasonInvalidCertificateRef,
			"tls.certificateRefs[0]: %s of group %q is not supported: name a Secret", kind, group)
	}
	if len(validation.IsDNS1123Subdomain(name.Name)) > 0 { // the API server accepts any text
		return name, problemf(gw.ListenerReasonInvalidCertificateRef,
			"tls.certificateRefs[0]: %.100q is no name of a Secret", name.Name)
	}
	if name.Namespace != g.Namespace && !s.Grants.allows(toSecret, g.Namespace, name.Namespace, name.Name) {
		return name, problemf(gw.ListenerReasonRefNotPermitted,
			"tls.certificateRefs[0]: no ReferenceGrant in namespace %s lets this Gateway refer to Secret %s",
			name.Namespace, name.Name)
	}
	return name, nil
}

// resolve sets the certificate of a listener with HTTPS that has no other problem. If the Secret has become unusable,
// the listener keeps the certificate that the pods have.
func (d *decision) resolve(l *listener) {
	name, problem := d.secretOf(l.gateway, l.Listener)
	if problem != nil {
		l.unresolved = firstOf(l.unresolved, problem)
		return
	}
	id := d.certificateID(name)
	c, ok := d.Certificates[name]
	switch {
	case !ok:
		problem = problemf(gw.ListenerReasonInvalidCertificateRef,
			"tls.certificateRefs[0]: there is no Secret %s of type kubernetes.io/tls", name)
	case c.Problem != "":
		problem = problemf(gw.ListenerReasonInvalidCertificateRef, "tls.certificateRefs[0]: Secret %s: %s", name, c.Problem)
	}
	l.unresolved = firstOf(l.unresolved, problem)
	before := d.delivery.content(id)
	if c.PEM != nil {
		full := d.room.takeCertificate(l.gateway.Namespace, id, c.PEM)
		if full == nil && !d.delivery.put(id, c.PEM) {
			full = problemf(reasonNoRoom, "the Secrets of CacheNode %s have no room for the certificate yet", d.Fleet)
		}
		if full == nil {
			l.certificate = id
			return
		}
		if before == nil {
			l.refused = full
			return
		}
		l.unresolved = firstOf(l.unresolved, full) // a renewal without room does not end what is served
	}
	if before != nil {
		l.certificate = id
	}
}
