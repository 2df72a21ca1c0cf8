// Package agentapi is the interface between operator, agent and kubectl plugin. The operator writes a revision, which
// the agent reads. The agent answers with a report. Fields are only ever added to both, so that versions can differ.
package agentapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Format is the newest version of a revision that this code reads, and writes where a spec needs it. A new field does
// not change it, because an agent ignores unknown fields. Format grows with a change that an older agent would misread.
// MinReader then grows too, and agents below it keep their configuration.
const Format = 3

// minReader is the oldest Format whose readers understand a spec. Format 2 has fields without which a client could get
// what is not for it, or an origin the wrong request. Format 3 has disks that leave.
func minReader(spec v1alpha1.CacheNodeSpec) int {
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

// Revision is all that the configuration of a CacheNode's pods depends on, except the facts of each pod.
type Revision struct {
	// Format is the version of the writer. MinReader is the lowest version that a reader must have.
	Format    int `json:"format"`
	MinReader int `json:"minReader"`
	// ID is a hash of all other fields.
	ID        string `json:"revision"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Spec is valid, has the CRD's defaults, and only the parts that nginx or the agent read.
	Spec v1alpha1.CacheNodeSpec `json:"spec"`
	// CABundle is the PEM text of the authorities for the origin's certificate; empty for the authorities of the image.
	CABundle string `json:"caBundle,omitempty"`
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string `json:"clusterDomain"`
	// Resolvers are the DNS servers that the agent asks; empty for those of the pod's resolv.conf.
	Resolvers []string `json:"resolvers,omitempty"`
}

// NewRevision returns the revision of a CacheNode. Fields of the spec that are not named here do not reach the pods,
// and an edit of them reloads nothing. The order of the disks does not matter.
func NewRevision(cacheNode effective.CacheNode, caBundle, clusterDomain string, resolvers []string) (Revision, error) {
	spec := cacheNode.Spec
	n := Revision{
		Format: minReader(spec), MinReader: minReader(spec),
		Namespace: cacheNode.Namespace, Name: cacheNode.Name,
		Spec: v1alpha1.CacheNodeSpec{
			Disks: slices.SortedFunc(slices.Values(spec.Disks), func(a, b v1alpha1.Disk) int {
				return strings.Compare(a.Name, b.Name)
			}),
			Origin: spec.Origin, Hosts: spec.Hosts, Cache: spec.Cache, IO: spec.IO, Listen: spec.Listen,
			Logs: spec.Logs, Headers: spec.Headers, Monitoring: spec.Monitoring,
			Rollout: v1alpha1.Rollout{WorkerShutdownTimeout: spec.Rollout.WorkerShutdownTimeout},
		},
		CABundle: caBundle, ClusterDomain: clusterDomain, Resolvers: resolvers,
	}
	if tls := spec.Listen.TLS; tls != nil && tls.HTTP3 {
		n.Spec.Service.HTTPSPort = spec.Service.HTTPSPort // it is in Alt-Svc
	}
	// The defaults are left out, so that the ID stays the one from before these fields existed.
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
	text, err := json.Marshal(n)
	if err != nil {
		return Revision{}, fmt.Errorf("revision: %w", err)
	}
	n.ID = revisionOf(text)
	return n, nil
}

// IsWhole reports whether the ID in a text is the hash of the rest, so that nobody has edited the text by hand.
func IsWhole(text []byte) bool {
	var n struct {
		Revision string `json:"revision"`
	}
	if json.Unmarshal(text, &n) != nil || n.Revision == "" {
		return false
	}
	old := fmt.Appendf(nil, `"revision":%q`, n.Revision)
	return revisionOf(bytes.Replace(text, old, []byte(`"revision":""`), 1)) == n.Revision
}

// revisionOf is the ID for a text in which the ID is empty.
func revisionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// ReadRevision parses a revision. It ignores unknown fields.
func ReadRevision(text []byte) (Revision, error) {
	var n Revision
	if err := json.Unmarshal(text, &n); err != nil {
		return Revision{}, fmt.Errorf("revision: %w", err)
	}
	if n.MinReader > Format {
		return Revision{}, fmt.Errorf(
			"revision: is for agents that know format %d, this one knows %d: restart the pod to get a newer agent",
			n.MinReader, Format)
	}
	if n.ID == "" || len(n.Spec.Disks) == 0 {
		return Revision{}, fmt.Errorf("revision: has no revision or no disks")
	}
	return n, nil
}
