package resolver

import (
	"net/netip"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Nobody is the address of a pod that has none, as it is being replaced. It is a multicast address, to which a TCP
// connection fails at once. nginx would ask again for a name that does not exist only after 11 s, and an address of
// before may be somebody else's by now.
var Nobody = netip.MustParseAddr("224.0.0.0")

// told has the addresses of the CacheNode's pods that the operator sent last, and when.
type told struct {
	pods map[string]netip.Addr
	at   time.Time
}

// address returns the address of a pod. known is false for a name of no pod, and if the operator has sent nothing for
// [agentapi.AddressesValid].
func (t told) address(name string, c Config, now time.Time) (address netip.Addr, known bool) {
	if !c.isPod(name) || t.at.IsZero() || now.Sub(t.at) >= agentapi.AddressesValid {
		return address, false
	}
	address, ok := t.pods[strings.TrimSuffix(name, "."+c.PodDomain)]
	if !ok || isIn(c.Denied.Always, address) {
		return Nobody, true
	}
	return address, true
}

// Tell replaces the addresses of the CacheNode's pods. IPv6 addresses are left out, as nginx asks for none.
func (r *Resolver) Tell(a agentapi.Addresses) {
	pods := map[string]netip.Addr{}
	for pod, address := range a.Pods {
		if address.Is4() {
			pods[pod] = address
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.told = told{pods: pods, at: r.clock.Now()}
}
