package gateways

import (
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// Range is a range of ports of the pods, including From and To.
type Range struct{ From, To int32 }

// Held contains the ports of the pods that another Gateway must not get: each with the port of the Gateway for which a
// pod may listen on it.
type Held map[int32]Port

// Add adds other ports. It does not replace a port that is there already.
func (h Held) Add(more Held) {
	for number, p := range more {
		if _, ok := h[number]; !ok {
			h[number] = p
		}
	}
}

// of returns the lowest port of the pods in a range that is held for a port of a Gateway.
func (h Held) of(p Port, within Range) (number int32, ok bool) {
	for n, other := range h {
		if other == p && within.contains(n) && (!ok || n < number) {
			number, ok = n, true
		}
	}
	return number, ok
}

func (r Range) contains(number int32) bool { return r.From <= number && number <= r.To }

// AssignPorts assigns a port of the pods to each port of a Gateway that has a supported protocol. current contains the
// ports to which the Services of Gateways lead. held contains the ports on which pods may listen. Both may contain
// ports of Gateways that are gone, are not accepted or have other listeners now. A Gateway keeps its ports, unless they
// are out of range, or a pod may still listen there for another Gateway.
//
// The Gateways of one namespace, and those that are gone, have at most the number most of ports. If there are too few
// ports, older Gateways get ports and newer ones do not.
func AssignPorts(of []gw.Gateway, current map[Port]int32, held Held, within Range, most int) map[Port]int32 {
	taken := maps.Clone(held)
	if taken == nil {
		taken = Held{}
	}
	for p, number := range current {
		taken.Add(Held{number: p})
	}
	count := map[string]int{}
	for number, p := range taken {
		if within.contains(number) {
			count[p.Gateway.Namespace]++
		}
	}
	assigned := map[Port]int32{}
	free := within.From
	for _, p := range wantedPorts(of) {
		number, ok := current[p]
		if !ok || taken[number] != p || !within.contains(number) {
			number, ok = taken.of(p, within)
		}
		if ok {
			assigned[p] = number
			continue
		}
		if count[p.Gateway.Namespace] >= most {
			continue
		}
		for within.contains(free) && taken[free] != (Port{}) {
			free++
		}
		if within.contains(free) {
			assigned[p], taken[free] = free, p
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
func (s State) AssignedPorts(current map[Port]int32, held Held, within Range) map[Port]int32 {
	most := int(within.To-within.From) + 1
	if ptr.Deref(s.Fleet.Allowed.From, gw.NamespacesFromSame) != gw.NamespacesFromSame {
		most = (most + shares - 1) / shares
	}
	return AssignPorts(s.Allowed(), current, held, within, most)
}
