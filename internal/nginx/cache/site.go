package cache

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// site is a site together with the node that serves it. Methods that read only the embedded sites.Site return what the
// spec requests. The other methods return what applies on this node. For example, hasSlices is false for a pod without
// disks.
type site struct {
	node
	sites.Site
	backend backend
	entry   entry
	// ofRoutes is true for the site that contains the settings of all routes; see routed. policies are the policies of
	// these routes.
	ofRoutes bool
	policies []policy
}

// entry describes how the caches of a site reach its gateway: the name of the upstream, and the socket to which the
// upstream leads.
type entry struct{ name, socket string }

// url returns the URL of the gateway, without a path.
func (e entry) url() conf.Expression { return conf.Expression("http://" + e.name) }

// address returns the socket in the form of the directives listen and server.
func (e entry) address() conf.Literal { return conf.Literal("unix:" + e.socket) }

func newSite(n node, s sites.Site) site {
	b := backend{Origin: s.Origin, name: ownBackend, namespace: n.Namespace, clusterDomain: n.ClusterDomain}
	for _, next := range n.Coming {
		if !slices.ContainsFunc(s.Origin.Servers, func(has v1alpha1.OriginServer) bool { return isSameServer(has, next) }) {
			b.coming = append(b.coming, next)
		}
	}
	if n.CABundle != "" {
		b.authorities = layout.CAFile(digest(n.CABundle))
	}
	return site{node: n, Site: s, backend: b, entry: entry{"gateway", layout.GatewaySocket}}
}

// isSameServer returns true if two servers of an origin have the same name and port.
func isSameServer(a, b v1alpha1.OriginServer) bool {
	return equality.Semantic.DeepEqual(a.Host, b.Host) && equality.Semantic.DeepEqual(a.Port, b.Port) &&
		equality.Semantic.DeepEqual(a.Service, b.Service)
}

// newRoutes returns the site with the settings that all routes share.
func newRoutes(n node) site {
	s := routesSite(n, sites.OfRoutes(n.Spec, nil))
	s.policies = policiesOf(n)
	return s
}

// routesSite returns the site with the settings of routes. Its policies are not set.
func routesSite(n node, s sites.Site) site {
	b := backend{Origin: s.Origin, name: backendPattern, variable: routeBackend}
	return site{node: n, Site: s, backend: b, entry: entry{"gateway", layout.GatewaySocket}, ofRoutes: true}
}
