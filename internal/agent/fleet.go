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

// fleet returns what the configuration takes from the other pods, and the disks that keys have moved from. Nothing is
// taken from other pods unless the revision has the pods share keys.
func (a *Agent) fleet(revision agentapi.Revision) (f cache.Fleet, err error) {
	all, err := a.readFleet()
	if err != nil {
		return f, err
	}
	if revision.Spec.Routing.Mode != v1alpha1.RoutingSharded {
		f.Disks, f.Serial = all.Disks, all.Serial
		return f, nil
	}
	self, ok := naming.Ordinal(revision.Name, a.Paths.Hostname)
	if !ok {
		return f, fmt.Errorf("%s is no pod of %s", a.Paths.Hostname, revision.Name)
	}
	f.Self = self
	f.Fleet = all.For(self)
	if revision.Spec.Routing.TLS != v1alpha1.PeerTLSOff {
		f.Certificate, err = a.peersHash()
	}
	return f, err
}

// readFleet reads which pods share keys: from the pod's annotation or from the ConfigMap, whichever is newer. They
// reach the pod in either order, and a new pod has no annotation. If nothing says so, nobody shares keys, and the pod
// serves all of them itself.
func (a *Agent) readFleet() (newest fleet.Fleet, err error) {
	annotations, err := podinfo.Annotations(a.Paths.PodInfo)
	if err != nil {
		return newest, err
	}
	text, err := os.ReadFile(filepath.Join(a.Paths.Config, naming.FleetKey))
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

// peersHash reads what the pods show to each other and returns its hash. Like the certificate for clients, a damaged
// file does not replace a good one.
func (a *Agent) peersHash() (string, error) {
	peers, err := podinfo.MountedPeers(a.Paths.Peer)
	if err == nil {
		a.peers = peers
		return peers.Hash, nil
	}
	if a.peers.Hash == "" {
		a.peers = a.copiedPeers()
	}
	if a.peers.Hash == "" {
		return "", fmt.Errorf("the certificate for other pods: %w", err)
	}
	a.Log.Warn("the certificate for other pods cannot be used: nginx keeps the previous one", "error", err)
	return a.peers.Hash, nil
}

// copiedPeers returns what an earlier agent in this pod has copied for nginx; the zero value if there is none.
func (a *Agent) copiedPeers() podinfo.Peers {
	keys, _ := filepath.Glob(a.Paths.Root + layout.PeerKey("*")) // the pattern is valid
	for _, key := range keys {
		name := strings.TrimSuffix(key, ".key")
		if peers, err := podinfo.ReadPeers(name+".crt", key, name+"-ca.crt"); err == nil {
			return peers
		}
	}
	return podinfo.Peers{}
}
