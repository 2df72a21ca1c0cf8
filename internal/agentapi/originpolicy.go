package agentapi

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// OriginPolicy is what the operator's flags say about origins, for agents: a name can lead elsewhere after its spec was
// accepted. It is in the ConfigMap beside the revisions, so another flag changes no configuration.
type OriginPolicy struct {
	// DeniedRanges are ranges of addresses that no name outside the cluster may lead to.
	DeniedRanges []netip.Prefix `json:"deniedRanges,omitempty"`
	// Namespaces are those, beside the CacheNode's own, whose Services a name may be an alias for; "*" allows all.
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
