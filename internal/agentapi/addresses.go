package agentapi

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// AddressesPath is where an agent takes [Addresses], by PUT.
const AddressesPath = "/v1/addresses"

// AddressesValid is how long [Addresses] count. An agent that hears nothing for that long asks the name servers where
// the pods are.
const AddressesValid = 30 * time.Second

// Addresses are where the pods of a CacheNode are, by name. The operator tells the agents when they change, and before
// they are no longer valid. A pod whose nginx does not run is not among them.
type Addresses struct {
	Pods map[string]netip.Addr `json:"pods"`
}

// WriteDenied returns the text of the ranges that no origin may have, for agents. [ReadDenied] reads it.
func WriteDenied(ranges []netip.Prefix) (string, error) {
	text, err := json.Marshal(ranges)
	return string(text), err
}

// ReadDenied parses the text of [WriteDenied].
func ReadDenied(text []byte) (ranges []netip.Prefix, err error) {
	if err := json.Unmarshal(text, &ranges); err != nil {
		return nil, fmt.Errorf("the denied ranges: %w", err)
	}
	return ranges, nil
}
