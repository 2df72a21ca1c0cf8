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

// Peers is what a pod shows to the other pods of its CacheNode, and the authorities that it demands of them, in PEM.
type Peers struct {
	KeyPair
	Authority []byte
	// Hash identifies all of it.
	Hash string
}

// MountedPeers reads what the operator gave to the pods of a CacheNode.
func MountedPeers(dir string) (Peers, error) {
	pair, err := MountedKeyPair(dir)
	if err != nil {
		return Peers{}, err
	}
	return withAuthority(pair, filepath.Join(dir, naming.AuthorityKey))
}

// ReadPeers reads the copies of it that nginx reads.
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
