package podinfo

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// KeyPair is a certificate and its key, in PEM.
type KeyPair struct {
	Certificate, Key []byte
	// Hash identifies the certificate and the key.
	Hash string
}

// MountedKeyPair reads a mounted Secret of type kubernetes.io/tls.
func MountedKeyPair(dir string) (KeyPair, error) {
	return ReadKeyPair(filepath.Join(dir, corev1.TLSCertKey), filepath.Join(dir, corev1.TLSPrivateKeyKey))
}

// ReadKeyPair reads a certificate and its key. It returns an error if they do not belong together.
func ReadKeyPair(certificate, key string) (KeyPair, error) {
	var p KeyPair
	var err error
	if p.Certificate, err = os.ReadFile(certificate); err != nil { //nolint:gosec // the path is ours
		return KeyPair{}, err
	}
	if p.Key, err = os.ReadFile(key); err != nil { //nolint:gosec // the path is ours
		return KeyPair{}, err
	}
	if _, err := tls.X509KeyPair(p.Certificate, p.Key); err != nil {
		return KeyPair{}, err
	}
	hash := sha256.New()
	_, _ = hash.Write(p.Certificate)
	_, _ = hash.Write([]byte{0})
	_, _ = hash.Write(p.Key)
	p.Hash = hex.EncodeToString(hash.Sum(nil))[:12]
	return p, nil
}
