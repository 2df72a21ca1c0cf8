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
// because nginx would not start with the damaged one.
func (c *conductor) listener() (hash string, err error) {
	pair, err := podinfo.MountedKeyPair(c.Paths.Listener)
	if err == nil {
		c.pair = pair
		return pair.Hash, nil
	}
	if c.pair.Hash == "" {
		c.pair = c.copied() // the copy that an earlier agent in this pod has made
	}
	if c.pair.Hash == "" {
		return "", fmt.Errorf("the certificate of listen.tls: %w", err)
	}
	c.Log.Warn("the certificate of listen.tls cannot be used: nginx keeps the previous one", "error", err)
	return c.pair.Hash, nil
}

// copied returns the certificate and key from the files that nginx reads; the zero value if there are no such files.
func (c *conductor) copied() podinfo.KeyPair {
	certificates, _ := filepath.Glob(c.Paths.Root + layout.ListenerCertificate("*")) // the pattern is valid
	for _, certificate := range certificates {
		if pair, err := podinfo.ReadKeyPair(certificate, strings.TrimSuffix(certificate, ".crt")+".key"); err == nil {
			return pair
		}
	}
	return podinfo.KeyPair{}
}

// files returns the files to which the configuration refers, including the certificates. nginx reads copies of the
// certificates, which change only with the configuration.
func (c *conductor) files(config cache.Config, facts cache.Facts) []cache.File {
	files := slices.Clone(config.Files)
	if facts.Certificate != "" {
		files = append(files,
			cache.File{Path: layout.ListenerCertificate(facts.Certificate), Content: c.pair.Certificate},
			cache.File{Path: layout.ListenerKey(facts.Certificate), Content: c.pair.Key, Secret: true})
	}
	if hash := facts.Fleet.Certificate; hash != "" {
		files = append(files,
			cache.File{Path: layout.PeerCertificate(hash), Content: c.peers.Certificate},
			cache.File{Path: layout.PeerAuthority(hash), Content: c.peers.Authority},
			cache.File{Path: layout.PeerKey(hash), Content: c.peers.Key, Secret: true})
	}
	return files
}
