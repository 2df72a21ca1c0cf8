package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// fleet returns what this pod must know about the other pods with which it shares keys. It also returns the disks from
// which keys have moved. The part about other pods is empty unless routing.mode is Sharded in the revision.
func (c *conductor) fleet(revision agentapi.Revision) (f cache.Fleet, err error) {
	all, err := c.readFleet()
	if err != nil {
		return f, err
	}
	if revision.Spec.Routing.Mode != v1alpha1.RoutingSharded {
		f.Disks, f.Serial = all.Disks, all.Serial
		return f, nil
	}
	self, ok := naming.Ordinal(revision.Name, c.Paths.Hostname)
	if !ok {
		return f, fmt.Errorf("%s is no pod of %s", c.Paths.Hostname, revision.Name)
	}
	f.Self = self
	f.Fleet = all.For(self)
	if revision.Spec.Routing.TLS != v1alpha1.PeerTLSOff {
		f.Certificate, err = c.peersHash()
	}
	return f, err
}

// readFleet reads which pods share keys. It reads the pod's annotation and the ConfigMap, and returns the newer
// information. The annotation and the ConfigMap may reach the pod in either order, and a new pod has no annotation. If
// neither contains a fleet, no pods share keys, and the pod serves all keys itself.
func (c *conductor) readFleet() (newest fleet.Fleet, err error) {
	annotations, err := podinfo.Annotations(c.Paths.PodInfo)
	if err != nil {
		return newest, err
	}
	text, err := os.ReadFile(filepath.Join(c.Paths.Config, naming.FleetKey))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return newest, err
	}
	for _, text := range []string{string(text), annotations[naming.AnnotationFleet]} {
		f, err := fleet.Read(text)
		if err != nil {
			return newest, err
		}
		if f.Serial >= newest.Serial {
			newest = f
		}
	}
	return newest, nil
}

// peersHash reads the certificate, key and authority for connections between pods, and returns their hash. If a file is
// damaged, the previous certificate, key and authority stay in use, as with the certificate for clients.
func (c *conductor) peersHash() (string, error) {
	peers, err := podinfo.MountedPeers(c.Paths.Peer)
	if err == nil {
		c.peers = peers
		return peers.Hash, nil
	}
	if c.peers.Hash == "" {
		c.peers = c.copiedPeers()
	}
	if c.peers.Hash == "" {
		return "", fmt.Errorf("the certificate for other pods: %w", err)
	}
	c.Log.Warn("the certificate for other pods cannot be used: nginx keeps the previous one", "error", err)
	return c.peers.Hash, nil
}

// copiedPeers returns the certificate, key and authority that an earlier agent in this pod copied for nginx; the zero
// value if there are no copies.
func (c *conductor) copiedPeers() podinfo.Peers {
	keys, _ := filepath.Glob(c.Paths.Root + layout.PeerKey("*")) // the pattern is valid
	for _, key := range keys {
		name := strings.TrimSuffix(key, ".key")
		if peers, err := podinfo.ReadPeers(name+".crt", key, name+"-ca.crt"); err == nil {
			return peers
		}
	}
	return podinfo.Peers{}
}
