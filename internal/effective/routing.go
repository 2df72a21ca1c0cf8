package effective

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// PeerPorts are the ports on which pods that share keys receive requests from each other. RoutePeerPorts are the same
// for requests to the routes of Gateways.
var (
	PeerPorts      = []int32{8088, 8089}
	RoutePeerPorts = []int32{8090, 8091}
)

// HopBuffers is the maximum memory, in bytes, that a response from another pod uses until it is complete.
const HopBuffers = 536 << 10

// FindsPods is the time after which nginx in all pods usually knows the address of a new pod. The operator sends the
// address of the pod to the agents, and nginx asks its agent every two seconds. If the operator replaces the next pod
// earlier, the objects of both pods are fetched again.
const FindsPods = 3 * time.Second

// FindsPodsByName replaces FindsPods for older agents, which do not give nginx the addresses of pods. nginx then asks
// the DNS servers again after ten to twenty seconds.
const FindsPodsByName = 15 * time.Second

// Handover returns the duration of a hand-over; 0 if there is none. During a hand-over, requested objects of moved
// keys are fetched from the previous disk or pod of the keys.
func Handover(r v1alpha1.Routing) time.Duration { return Duration(HandoverText(r)) }

// HandoverText returns the result of Handover as a text, in the form in which a person writes it in a spec.
func HandoverText(r v1alpha1.Routing) v1alpha1.Duration { return cmp.Or(r.Handover, "10m") }

// routingMode returns the mode that is in effect, and the reason for it.
func routingMode(spec v1alpha1.CacheNodeSpec, before Before) (mode v1alpha1.RoutingMode, why string) {
	several := spec.Placement.PerNode || ptr.Deref(spec.Replicas, 1) > 1
	forPods := spec.Routing
	forPods.Handover = "" // this field applies to disks too
	switch against := againstSharing(spec); {
	case spec.Routing.Mode != "":
		return spec.Routing.Mode, "set by spec.routing.mode"
	case before.Routing == v1alpha1.RoutingSharded:
		return v1alpha1.RoutingSharded, "its pods already share the keys"
	case forPods != (v1alpha1.Routing{}):
		return v1alpha1.RoutingSharded, "spec.routing says how the pods share the keys"
	case !several:
		return v1alpha1.RoutingLocal, "there is one pod"
	case before.Routing == v1alpha1.RoutingLocal:
		return v1alpha1.RoutingLocal, "its pods do not share the keys; set routing.mode to Sharded if you want that"
	case against != "":
		return v1alpha1.RoutingLocal, against
	}
	return v1alpha1.RoutingSharded, "several pods that share the keys hold more and ask the origin once"
}

// againstSharing returns the reason why the operator does not choose routing.mode Sharded; "" if there is none.
func againstSharing(spec v1alpha1.CacheNodeSpec) string {
	if replicas := ptr.Deref(spec.Replicas, 1); replicas > fleet.MaxMembers {
		return fmt.Sprintf("at most %d pods can share keys", fleet.MaxMembers)
	}
	ports := []int32{ptr.Deref(spec.Listen.Port, 0)}
	if spec.Listen.TLS != nil {
		ports = append(ports, ptr.Deref(spec.Listen.TLS.Port, 0))
	}
	for _, port := range ports {
		if slices.Contains(PeerPorts, port) || spec.Gateways != nil && slices.Contains(RoutePeerPorts, port) {
			return fmt.Sprintf("pods that share keys need port %d, which spec.listen has", port)
		}
	}
	return ""
}
