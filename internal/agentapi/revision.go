// Package agentapi defines the interface between the operator, the agent and the kubectl plugin. The operator writes
// a revision, which the agent reads. The agent answers with a report. New versions only add fields to revisions and
// reports, so that operator and agent can have different versions.
//
// It may import the API's types and the packages effective and routes, whose values the messages contain. For a new
// message, add a type here, a request in agentclient and an answer in the agent's server. Fields are only added.
package agentapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Format is the newest version of the format of revisions that this code reads. The operator writes a revision in
// this newest format only if the spec needs it. A new field does not change Format, because an agent ignores unknown
// fields. Raise Format for a change that an older agent would misread. MinReader then grows too. An agent whose
// Format is below MinReader keeps its present configuration.
const Format = 5

// Revision contains everything on which the configuration of a CacheNode's pods depends, except the facts of each
// pod.
type Revision struct {
	// Format is the version of the format in which the revision is written. MinReader is the lowest Format that a reader
	// must know.
	Format    int `json:"format"`
	MinReader int `json:"minReader"`
	// ID is a hash of all other fields.
	ID        string `json:"revision"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Spec is valid and includes the CRD's defaults. It contains only the parts that nginx or the agent reads.
	Spec v1alpha1.CacheNodeSpec `json:"spec"`
	// CABundle is the PEM text of the certificate authorities for the origin's certificate. It is empty if the
	// authorities of the image are used.
	CABundle string `json:"caBundle,omitempty"`
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string `json:"clusterDomain"`
	// Resolvers are the DNS servers that the agent asks. The list is empty if the agent asks those of the pod's
	// resolv.conf.
	Resolvers []string `json:"resolvers,omitempty"`
	// Routes are the routes of the CacheNode's Gateways, and the listeners that lead to these routes.
	Routes routes.Table `json:"routes,omitzero"`
}

// Identified returns the revision with its ID.
func (n Revision) Identified() (Revision, error) {
	n.ID = ""
	text, err := json.Marshal(n)
	if err != nil {
		return Revision{}, fmt.Errorf("revision: %w", err)
	}
	n.ID = idOf(text)
	return n, nil
}

// IsWhole reports whether the ID in a text is the hash of the rest of the text. If it is not, somebody has edited the
// text by hand.
func IsWhole(text []byte) bool {
	var n struct {
		Revision string `json:"revision"`
	}
	if json.Unmarshal(text, &n) != nil || n.Revision == "" {
		return false
	}
	old := fmt.Appendf(nil, `"revision":%q`, n.Revision)
	return idOf(bytes.Replace(text, old, []byte(`"revision":""`), 1)) == n.Revision
}

// idOf returns the ID of a revision, given its text with an empty ID.
func idOf(text []byte) string {
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
