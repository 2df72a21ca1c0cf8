// Package revision selects the fields of a CacheNode's spec that the pods need. The package is pure.
//
// A field that [Of] does not name does not reach the pods, and an edit of the field causes no reload. If a field that
// was added later has its default, Of omits it. Otherwise the same configuration would get another ID, and an upgrade
// of the operator would reload every nginx.
//
// The package may import the packages that define the meaning of a spec. If pods need a new field, add it to Of, and
// omit the field if it has its default.
package revision

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// Outside contains the inputs of a revision that are not in the CacheNode.
type Outside struct {
	// CABundle is the content of spec.origin.tls.caBundle; ClusterDomain and Resolvers are the values of the operator's
	// flags.
	CABundle, ClusterDomain string
	Resolvers               []string
	// Routes are the routes of the CacheNode's Gateways.
	Routes routes.Table
}

// Of returns the revision of a CacheNode. The order of the disks does not matter.
func Of(cacheNode effective.CacheNode, outside Outside) (agentapi.Revision, error) {
	spec := cacheNode.Spec
	format := minReader(spec, outside.Routes)
	n := agentapi.Revision{
		Format: format, MinReader: format,
		Namespace: cacheNode.Namespace, Name: cacheNode.Name,
		Spec: v1alpha1.CacheNodeSpec{
			Disks: slices.SortedFunc(slices.Values(spec.Disks), func(a, b v1alpha1.Disk) int {
				return strings.Compare(a.Name, b.Name)
			}),
			Origin: spec.Origin, Hosts: spec.Hosts, Cache: spec.Cache, IO: spec.IO, Listen: spec.Listen,
			Logs: spec.Logs, Headers: spec.Headers, Monitoring: spec.Monitoring,
			Rollout: v1alpha1.Rollout{WorkerShutdownTimeout: spec.Rollout.WorkerShutdownTimeout},
		},
		CABundle: outside.CABundle, ClusterDomain: outside.ClusterDomain, Resolvers: outside.Resolvers,
		Routes: outside.Routes,
	}
	if tls := spec.Listen.TLS; tls != nil && tls.HTTP3 {
		n.Spec.Service.HTTPSPort = spec.Service.HTTPSPort // the header Alt-Svc contains this port
	}
	// The defaults of these fields are omitted. So the ID is the same as it was before the fields existed.
	if !spec.Listen.Gzip.Enabled {
		n.Spec.Listen.Gzip = v1alpha1.Gzip{}
	}
	if spec.Routing.Mode == v1alpha1.RoutingSharded {
		n.Spec.Routing = v1alpha1.Routing{Mode: spec.Routing.Mode}
		if spec.Routing.TLS == v1alpha1.PeerTLSOff {
			n.Spec.Routing.TLS = spec.Routing.TLS
		}
	}
	if !slices.Equal(effective.TagHeaders(spec), effective.TagHeaders(n.Spec)) {
		n.Spec.Purge = v1alpha1.Purge{TagHeaders: spec.Purge.TagHeaders}
	}
	if spec.Purge.UnsafeMethods == v1alpha1.UnsafeIgnore {
		n.Spec.Purge.UnsafeMethods = spec.Purge.UnsafeMethods
	}
	if spec.Purge.Unindexed == v1alpha1.UnindexedWait {
		n.Spec.Purge.Unindexed = spec.Purge.Unindexed
	}
	if n.Spec.Logs.Format == "Combined" {
		n.Spec.Logs.Format = ""
	}
	if tls := n.Spec.Listen.TLS; tls != nil && ptr.Deref(tls.HTTP2, true) {
		n.Spec.Listen.TLS = tls.DeepCopy()
		n.Spec.Listen.TLS.HTTP2 = nil
	}
	if n.Spec.IO.Mode == v1alpha1.IOThreads || n.Spec.IO.Mode == v1alpha1.IOAuto {
		n.Spec.IO.Mode = ""
	}
	if effective.HasMemoryTier(spec) {
		n.Spec.MemoryTier = spec.MemoryTier
	}
	return n.Identified()
}

// minReader returns the lowest Format whose readers understand a spec. Format 2 contains fields that a reader must not
// ignore. If a reader ignored them, a client could get a response that is for somebody else, or an origin could get a
// wrong request. Format 3 contains disks that are leaving. Format 4 contains routes, or has no origin. Format 5
// contains cache rules that decide which responses are stored.
func minReader(spec v1alpha1.CacheNodeSpec, table routes.Table) int {
	if len(table.Policies) > 0 || len(spec.Cache.TTL) > 0 || len(spec.Cache.Ignore) > 0 {
		return 5
	}
	if len(table.Listeners) > 0 || sites.Own(spec).IsEmpty() {
		return 4
	}
	if slices.ContainsFunc(spec.Disks, effective.Leaves) {
		return 3
	}
	changes := func(c v1alpha1.HeaderChanges) bool { return len(c.Set) > 0 || len(c.Remove) > 0 }
	c := spec.Cache
	if c.Bypass != nil || c.Query != nil || c.Slice != nil || spec.Listen.ClientAddress != nil ||
		changes(spec.Headers.Request) || changes(spec.Headers.Response) {
		return 2
	}
	return 1
}
