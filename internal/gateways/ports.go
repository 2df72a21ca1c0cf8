package gateways

import (
	"slices"

	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// Range is a range of ports of the pods, including From and To.
type Range struct{ From, To int32 }

// AssignPorts assigns a port of the pods to each port of a Gateway that has a supported protocol. kept contains the
// ports that are assigned already. It also contains ports of Gateways that are gone or have other listeners now,
// because a pod may still serve these ports. No other Gateway gets a port while the port is in kept. A Gateway keeps
// its ports, unless they are out of range.
//
// The Gateways of one namespace, and those that are gone, have at most the number most of ports. If there are too few
// ports, older Gateways get ports and newer ones do not.
func AssignPorts(of []gw.Gateway, kept map[Port]int32, within Range, most int) map[Port]int32 {
	taken, count := make(map[int32]bool, len(kept)), map[string]int{}
	for p, number := range kept {
		if !taken[number] && within.From <= number && number <= within.To {
			count[p.Gateway.Namespace]++
		}
		taken[number] = true
	}
	assigned, given := map[Port]int32{}, map[int32]bool{}
	free := within.From
	for _, p := range wantedPorts(of) {
		number, ok := kept[p]
		if ok && within.From <= number && number <= within.To && !given[number] {
			assigned[p], given[number] = number, true
			continue
		}
		if count[p.Gateway.Namespace] >= most {
			continue
		}
		for free <= within.To && taken[free] {
			free++
		}
		if free <= within.To {
			assigned[p] = free
			taken[free] = true
			count[p.Gateway.Namespace]++
		}
	}
	return assigned
}

// wantedPorts returns the ports of Gateways that have a supported protocol, each once. The ports of older Gateways come
// first.
func wantedPorts(of []gw.Gateway) (ports []Port) {
	ordered := slices.Clone(of)
	slices.SortFunc(ordered, func(a, b gw.Gateway) int { return byAge(&a, &b) })
	seen := map[Port]bool{}
	for _, g := range ordered {
		for _, l := range g.Spec.Listeners {
			isSupported := l.Protocol == gw.HTTPProtocolType || l.Protocol == gw.HTTPSProtocolType
			if p := (Port{nameOf(&g), l.Port}); isSupported && !seen[p] {
				seen[p] = true
				ports = append(ports, p)
			}
		}
	}
	return ports
}

// AssignedPorts returns the ports of the pods for the Gateways of the fleet; see [AssignPorts]. If Gateways of several
// namespaces are allowed, one namespace gets at most a quarter of the ports.
func (s State) AssignedPorts(kept map[Port]int32, within Range) map[Port]int32 {
	most := int(within.To-within.From) + 1
	if ptr.Deref(s.Fleet.Allowed.From, gw.NamespacesFromSame) != gw.NamespacesFromSame {
		most = (most + shares - 1) / shares
	}
	return AssignPorts(s.Allowed(), kept, within, most)
}
