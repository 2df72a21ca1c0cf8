package cache

import (
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// site is a site as a node serves it. Methods that read only the site are about what it asks for; the others say what
// comes of that on this node, such as hasSlices: a pod without disks has none.
type site struct {
	node
	sites.Site
	backend backend
}

func newSite(n node, s sites.Site) site {
	b := backend{Origin: s.Origin, name: ownBackend, namespace: n.Namespace, clusterDomain: n.ClusterDomain}
	if n.CABundle != "" {
		b.authorities = layout.CAFile(digest(n.CABundle))
	}
	return site{node: n, Site: s, backend: b}
}
