package agentapi

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// OriginPolicy contains the limits on origins from the operator's flags, in the form that agents read. Agents need it
// because a name can resolve to another address after the operator has accepted the spec. The policy is stored in the
// ConfigMap beside the revisions, so a changed flag does not change nginx's configuration.
type OriginPolicy struct {
	// DeniedRanges are the address ranges to which no name outside the cluster may resolve.
	DeniedRanges []netip.Prefix `json:"deniedRanges,omitempty"`
	// Namespaces limits the Services to which a name may lead, directly or as an alias. Such a Service must be in one of
	// these namespaces or in the CacheNode's own namespace; "*" allows all namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Text returns the policy in the form that [ReadOriginPolicy] reads.
func (p OriginPolicy) Text() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// ReadOriginPolicy parses a policy. It ignores unknown fields.
func ReadOriginPolicy(text []byte) (p OriginPolicy, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return OriginPolicy{}, fmt.Errorf("the policy for origins: %w", err)
	}
	return p, nil
}
