package agentapi

import (
	"net/netip"
	"time"
)

// AddressesPath is the URL path at which an agent accepts [Addresses] by PUT.
const AddressesPath = "/v1/addresses"

// AddressesValid is the time for which an agent uses [Addresses] after it has received them. An agent that receives
// no new ones within this time asks the DNS servers for the addresses of the pods.
const AddressesValid = 30 * time.Second

// Addresses are the IP addresses of the pods of a CacheNode, by pod name. The operator sends them to the agents when
// they change, and again before they expire. They do not include a pod whose nginx does not run.
type Addresses struct {
	Pods map[string]netip.Addr `json:"pods"`
}
