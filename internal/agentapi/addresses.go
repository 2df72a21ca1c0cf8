package agentapi

import (
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
