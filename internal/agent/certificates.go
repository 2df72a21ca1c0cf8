package agent

import (
	"bytes"
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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// gatewayCertificates copies the certificates of Gateways from the folder that the kubelet writes to the files that
// nginx reads. A certificate and its key are in one file, which is replaced as a whole.
type gatewayCertificates struct {
	// mounted is the folder of the kubelet's files that were copied last, and ids are the certificates in it. The kubelet
	// creates another folder for each change.
	mounted string
	ids     []string
}

// missingCertificateError is the error for a revision whose certificates have not reached the pod yet.
type missingCertificateError struct{ error }

// copyCertificates makes the certificates of a revision available to nginx. It returns an error if a certificate is
// missing. The operator writes certificates before a revision that needs them, so a missing one is on its way. A
// damaged certificate does not replace a good one.
func (c *conductor) copyCertificates(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	mounted, _ := os.Readlink(filepath.Join(c.Paths.Certificates, "..data"))
	if mounted != "" && mounted == c.certificates.mounted && slices.Equal(ids, c.certificates.ids) {
		return nil
	}
	problems := []error{c.writeNoCertificate()}
	for _, id := range ids {
		problems = append(problems, c.copyCertificate(id))
	}
	if err := errors.Join(problems...); err != nil {
		return missingCertificateError{err}
	}
	c.certificates = gatewayCertificates{mounted, ids}
	return nil
}

func (c *conductor) copyCertificate(id string) error {
	path := layout.GatewayCertificate(id)
	had, none := os.ReadFile(c.Paths.Root + path)                     //nolint:gosec // the path is ours
	text, err := os.ReadFile(filepath.Join(c.Paths.Certificates, id)) //nolint:gosec // an ID is a hash
	if err == nil {
		_, err = tls.X509KeyPair(text, text)
	}
	switch {
	case err == nil && none == nil && bytes.Equal(text, had):
		return nil
	case err == nil:
		return c.Nginx.Write(cache.File{Path: path, Content: text, Secret: true})
	case none == nil:
		c.Log.Warn("a certificate of a Gateway cannot be used: nginx keeps the previous one", "id", id, "error", err)
		return nil
	}
	return fmt.Errorf("the certificate %s of a Gateway: %w", id, err)
}

// writeNoCertificate writes the certificate for names that belong to no listener, unless it exists.
func (c *conductor) writeNoCertificate() error {
	path := layout.GatewayCertificate(layout.NoCertificate)
	if _, err := os.Stat(c.Paths.Root + path); err == nil {
		return nil
	}
	const years = 10
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := c.clock.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "no listener has this name"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(years, 0, 0),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...)
	return c.Nginx.Write(cache.File{Path: path, Content: text, Secret: true})
}

// removeCertificates removes the files of certificates that the revision of nginx does not need.
func (c *conductor) removeCertificates(needed []string) {
	prefix, suffix, _ := strings.Cut(layout.GatewayCertificate("*"), "*")
	files, _ := filepath.Glob(c.Paths.Root + layout.GatewayCertificate("*")) // the pattern is valid
	for _, file := range files {
		id := strings.TrimSuffix(strings.TrimPrefix(file, c.Paths.Root+prefix), suffix)
		if id != layout.NoCertificate && !slices.Contains(needed, id) {
			_ = os.Remove(file)
		}
	}
}
