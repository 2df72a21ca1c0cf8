package gateways

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Limits of a certificate. A usual chain has about 7 kB. The lengths of RSA keys are those that OpenSSL and public
// authorities accept; a longer key would make each handshake expensive for all sites of the pods.
const (
	maxCertificate = 64 << 10
	minRSA, maxRSA = 2048, 4096
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
	if len(chain)+len(key) > maxCertificate {
		return nil, fmt.Errorf("tls.crt and tls.key have more than %d bytes together", maxCertificate)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key: %w", err)
	}
	if err := usableKey(pair.Leaf.PublicKey); err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	var text bytes.Buffer
	blocks := []pem.Block{{Type: "PRIVATE KEY", Bytes: der}}
	for _, c := range pair.Certificate {
		if _, err := x509.ParseCertificate(c); err != nil {
			return nil, fmt.Errorf("tls.crt: %w", err)
		}
		blocks = append(blocks, pem.Block{Type: "CERTIFICATE", Bytes: c})
	}
	for i := range blocks {
		_ = pem.Encode(&text, &blocks[i]) // a buffer accepts everything, and the blocks have no headers
	}
	return text.Bytes(), nil
}

// usableKey returns an error for a key that clients or nginx do not accept.
func usableKey(public any) error {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if n := key.N.BitLen(); n < minRSA || n > maxRSA {
			return fmt.Errorf("an RSA key of %d bits: use %d to %d bits, or ECDSA", n, minRSA, maxRSA)
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P224() {
			return fmt.Errorf("the curve %s is not supported: use P-256", key.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("a key of type %T is not supported: use RSA or ECDSA", public)
	}
	return nil
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
	id := naming.Certificate(name)
	c, ok := d.Certificates[name]
	switch {
	case !ok:
		problem = problemf(gw.ListenerReasonInvalidCertificateRef,
			"tls.certificateRefs[0]: Secret %s of type kubernetes.io/tls does not exist", name)
	case c.Problem != "":
		problem = problemf(gw.ListenerReasonInvalidCertificateRef, "tls.certificateRefs[0]: Secret %s: %s", name, c.Problem)
	}
	l.unresolved = firstOf(l.unresolved, problem)
	if c.PEM == nil {
		if c.PEM = d.delivery.content(id); c.PEM == nil {
			return
		}
	}
	if l.refused = d.room.takeCertificate(l.gateway.Namespace, id, c.PEM); l.refused != nil {
		return
	}
	if !d.delivery.put(id, c.PEM) {
		l.refused = problemf(reasonNoRoom, "the Secrets of CacheNode %s have no room for the certificate yet", d.Fleet)
		return
	}
	l.certificate = id
}
