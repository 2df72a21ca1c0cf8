package resolver

import (
	"net/netip"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Nobody is the address that the resolver returns for a pod without an address, such as a pod that is being replaced.
// It is a multicast address: a TCP connection to it fails at once. If the resolver answered that the name does not
// exist, nginx would ask again only after 11 s. The resolver does not return the pod's previous address, because this
// address may belong to another pod by now.
var Nobody = netip.MustParseAddr("224.0.0.0")

// told contains the addresses of the CacheNode's pods that the operator has sent last, and the time at which they
// arrived.
type told struct {
	pods map[string]netip.Addr
	at   time.Time
}

// address returns the address of a pod. known is false if the name is not the name of a pod. It is also false if the
// operator has sent no addresses during the last [agentapi.AddressesValid].
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

// Tell replaces the addresses of the CacheNode's pods. It leaves out IPv6 addresses, because nginx does not ask for
// them.
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
