package podinfo

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Peers contains the certificate that a pod shows to the other pods of its CacheNode, and the key of this
// certificate. It also contains the authorities that must have signed the certificates of the other pods. All are in
// PEM.
type Peers struct {
	KeyPair
	Authority []byte
	// Hash identifies the certificate, the key and the authorities together.
	Hash string
}

// MountedPeers reads the certificate, key and authorities that the operator has created for the pods of a CacheNode,
// from the mounted Secret.
func MountedPeers(dir string) (Peers, error) {
	pair, err := MountedKeyPair(dir)
	if err != nil {
		return Peers{}, err
	}
	return withAuthority(pair, filepath.Join(dir, naming.AuthorityKey))
}

// ReadPeers reads the copies of the certificate, key and authorities that nginx uses.
func ReadPeers(certificate, key, authority string) (Peers, error) {
	pair, err := ReadKeyPair(certificate, key)
	if err != nil {
		return Peers{}, err
	}
	return withAuthority(pair, authority)
}

func withAuthority(pair KeyPair, path string) (Peers, error) {
	authority, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil {
		return Peers{}, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(authority) {
		return Peers{}, fmt.Errorf("%s: no certificate", path)
	}
	sum := sha256.Sum256(append([]byte(pair.Hash+"\x00"), authority...))
	return Peers{KeyPair: pair, Authority: authority, Hash: hex.EncodeToString(sum[:])[:12]}, nil
}
