// Package agentapi is what operator, agent and kubectl plugin say to each other: revision, which the operator writes and
// the agent reads, and the report, which the agent answers with. Both only ever gain fields, so that versions can differ.
package agentapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Format is the version of revision that this code writes, and the newest that it reads. A new field does not change it:
// an agent that does not know the field passes it over. It grows with what an older agent would get wrong; then MinReader
// grows too, and agents below it keep what they have.
const Format = 1

// minReader is the oldest Format whose readers understand what this code writes.
const minReader = 1

// Revision is the content of revision: all that the configuration of a CacheNode's pods depends on, but for the facts of each
// pod.
type Revision struct {
	// Format is the version of the writer; MinReader is the lowest that a reader must have.
	Format    int `json:"format"`
	MinReader int `json:"minReader"`
	// ID is a hash of all else.
	ID        string `json:"revision"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Spec is valid, has the CRD's defaults, and only those parts that nginx or the agent read.
	Spec v1alpha1.CacheNodeSpec `json:"spec"`
	// CABundle is the PEM text with which the origin's certificate is checked; empty for the image's own authorities.
	CABundle string `json:"caBundle,omitempty"`
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string `json:"clusterDomain"`
	// Resolvers are the DNS servers that nginx is to ask; empty for those of the pod's own resolv.conf.
	Resolvers []string `json:"resolvers,omitempty"`
}

// NewRevision makes the content of revision. What is not named here does not reach the pods, and an edit of it reloads
// nothing. The order of the disks does not matter.
func NewRevision(cacheNode effective.CacheNode, caBundle, clusterDomain string, resolvers []string) (Revision, error) {
	spec := cacheNode.Spec
	n := Revision{
		Format: Format, MinReader: minReader,
		Namespace: cacheNode.Namespace, Name: cacheNode.Name,
		Spec: v1alpha1.CacheNodeSpec{
			Disks: slices.SortedFunc(slices.Values(spec.Disks), func(a, b v1alpha1.Disk) int {
				return strings.Compare(a.Name, b.Name)
			}),
			Origin: spec.Origin, Hosts: spec.Hosts, Cache: spec.Cache, IO: spec.IO, Listen: spec.Listen,
			Logs: spec.Logs, Monitoring: spec.Monitoring,
			Rollout: v1alpha1.Rollout{WorkerShutdownTimeout: spec.Rollout.WorkerShutdownTimeout},
		},
		CABundle: caBundle, ClusterDomain: clusterDomain, Resolvers: resolvers,
	}
	if n.Spec.IO.Mode == v1alpha1.IOThreads || n.Spec.IO.Mode == v1alpha1.IOAuto { // as before there was a choice
		n.Spec.IO.Mode = ""
	}
	if tuning.HasMemoryTier(spec) { // what has none is the revision of before there were any
		n.Spec.MemoryTier = spec.MemoryTier
	}
	text, err := json.Marshal(n)
	if err != nil {
		return Revision{}, fmt.Errorf("revision: %w", err)
	}
	n.ID = revisionOf(text)
	return n, nil
}

// IsWhole is true for a text whose revision is the hash of the rest: nobody has edited it by hand.
func IsWhole(text []byte) bool {
	var n struct {
		Revision string `json:"revision"`
	}
	if json.Unmarshal(text, &n) != nil || n.Revision == "" {
		return false
	}
	return revisionOf(bytes.Replace(text, fmt.Appendf(nil, `"revision":%q`, n.Revision), []byte(`"revision":""`), 1)) == n.Revision
}

// revisionOf is the revision of a revision in which the revision is empty.
func revisionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// ReadRevision reads revision. Fields that this code does not know are passed over.
func ReadRevision(text []byte) (Revision, error) {
	var n Revision
	if err := json.Unmarshal(text, &n); err != nil {
		return Revision{}, fmt.Errorf("revision: %w", err)
	}
	if n.MinReader > Format {
		return Revision{}, fmt.Errorf("revision: is for agents that know format %d, this one knows %d: restart the pod to get a newer agent", n.MinReader, Format)
	}
	if n.ID == "" || len(n.Spec.Disks) == 0 {
		return Revision{}, fmt.Errorf("revision: has no revision or no disks")
	}
	return n, nil
}
