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

// PeerPorts are the ports on which pods that share keys talk to each other.
var PeerPorts = []int32{8088, 8089}

// HopBuffers is the bytes of memory that a response from another pod takes while it lasts, at most.
const HopBuffers = 536 << 10

// FindsPods is how long it takes as a rule until nginx in all pods has found a new pod. The operator tells the agents
// where the pod is, and nginx asks its agent every two seconds. If the next pod is replaced before, keys of both are
// fetched again.
const FindsPods = 3 * time.Second

// FindsPodsByName is FindsPods where an agent from before does not tell nginx where pods are. nginx asks the name
// servers again after ten to twenty seconds.
const FindsPodsByName = 15 * time.Second

// Handover returns how long keys that move are filled from where they were; 0 for not at all.
func Handover(r v1alpha1.Routing) time.Duration { return Duration(HandoverText(r)) }

// HandoverText returns Handover as a person would write it.
func HandoverText(r v1alpha1.Routing) v1alpha1.Duration { return cmp.Or(r.Handover, "10m") }

// routingMode returns the mode in effect, and why.
func routingMode(spec v1alpha1.CacheNodeSpec, before Before) (mode v1alpha1.RoutingMode, why string) {
	several := spec.Placement.PerNode || ptr.Deref(spec.Replicas, 1) > 1
	forPods := spec.Routing
	forPods.Handover = "" // which is for disks too
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

// againstSharing returns what keeps the operator from choosing routing.mode Sharded; "" if nothing does.
func againstSharing(spec v1alpha1.CacheNodeSpec) string {
	if replicas := ptr.Deref(spec.Replicas, 1); replicas > fleet.MaxMembers {
		return fmt.Sprintf("at most %d pods can share keys", fleet.MaxMembers)
	}
	ports := []int32{ptr.Deref(spec.Listen.Port, 0)}
	if spec.Listen.TLS != nil {
		ports = append(ports, ptr.Deref(spec.Listen.TLS.Port, 0))
	}
	for _, port := range ports {
		if slices.Contains(PeerPorts, port) {
			return fmt.Sprintf("pods that share keys need port %d, which spec.listen has", port)
		}
	}
	return ""
}
