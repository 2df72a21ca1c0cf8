package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
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

// copied is the certificate in the place where nginx reads it; the zero value if there is none.
func (a *Agent) copied() podinfo.KeyPair {
	certificates, _ := filepath.Glob(a.Paths.Root + layout.ListenerCertificate("*")) // the pattern is valid
	for _, certificate := range certificates {
		if pair, err := podinfo.ReadKeyPair(certificate, strings.TrimSuffix(certificate, ".crt")+".key"); err == nil {
			return pair
		}
	}
	return podinfo.KeyPair{}
}

// files are the files that the configuration refers to. nginx reads copies, which change only with the configuration.
func (a *Agent) files(config cache.Config, revision agentapi.Revision, facts cache.Facts) []reload.File {
	var files []reload.File
	if facts.Scripts {
		files = append(files, reload.File{Path: cache.ScriptFile(), Content: []byte(cache.Script)})
	}
	if config.CAFile != "" {
		files = append(files, reload.File{Path: config.CAFile, Content: []byte(revision.CABundle)})
	}
	if facts.Certificate != "" {
		files = append(files,
			reload.File{Path: layout.ListenerCertificate(facts.Certificate), Content: a.pair.Certificate},
			reload.File{Path: layout.ListenerKey(facts.Certificate), Content: a.pair.Key, Secret: true})
	}
	if hash := facts.Fleet.Certificate; hash != "" {
		files = append(files,
			reload.File{Path: layout.PeerCertificate(hash), Content: a.peers.Certificate},
			reload.File{Path: layout.PeerAuthority(hash), Content: a.peers.Authority},
			reload.File{Path: layout.PeerKey(hash), Content: a.peers.Key, Secret: true})
	}
	return files
}
