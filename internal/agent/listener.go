package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// listener reads the certificate for clients and returns its hash. A damaged certificate does not replace a good one,
// because nginx would not start with it.
func (a *Agent) listener() (hash string, err error) {
	pair, err := podinfo.MountedKeyPair(a.Paths.Listener)
	if err == nil {
		a.pair = pair
		return pair.Hash, nil
	}
	if a.pair.Hash == "" {
		a.pair = a.copied() // by an earlier agent in this pod
	}
	if a.pair.Hash == "" {
		return "", fmt.Errorf("the certificate of listen.tls: %w", err)
	}
	a.Log.Warn("the certificate of listen.tls cannot be used: nginx keeps the previous one", "error", err)
	return a.pair.Hash, nil
}

// copied returns the certificate in the place where nginx reads it; the zero value if there is none.
func (a *Agent) copied() podinfo.KeyPair {
	certificates, _ := filepath.Glob(a.Paths.Root + layout.ListenerCertificate("*")) // the pattern is valid
	for _, certificate := range certificates {
		if pair, err := podinfo.ReadKeyPair(certificate, strings.TrimSuffix(certificate, ".crt")+".key"); err == nil {
			return pair
		}
	}
	return podinfo.KeyPair{}
}

// files returns the files that the configuration refers to, with the certificates. nginx reads copies, which change
// only with the configuration.
func (a *Agent) files(config cache.Config, facts cache.Facts) []cache.File {
	files := slices.Clone(config.Files)
	if facts.Certificate != "" {
		files = append(files,
			cache.File{Path: layout.ListenerCertificate(facts.Certificate), Content: a.pair.Certificate},
			cache.File{Path: layout.ListenerKey(facts.Certificate), Content: a.pair.Key, Secret: true})
	}
	if hash := facts.Fleet.Certificate; hash != "" {
		files = append(files,
			cache.File{Path: layout.PeerCertificate(hash), Content: a.peers.Certificate},
			cache.File{Path: layout.PeerAuthority(hash), Content: a.peers.Authority},
			cache.File{Path: layout.PeerKey(hash), Content: a.peers.Key, Secret: true})
	}
	return files
}
