package gateways

import (
	"slices"

	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// Range is a range of ports of the pods, with both ends.
type Range struct{ From, To int32 }

// AssignPorts returns the ports of the pods for the ports of Gateways. kept are the ports that are assigned already,
// also those of Gateways that are gone or have other listeners now: a pod may still serve them. So no other Gateway
// gets such a port until the caller leaves it out of kept. A Gateway keeps its ports, unless they are out of range.
//
// If the range has too few ports, older Gateways get ports and newer ones do not.
func AssignPorts(of []gw.Gateway, kept map[Port]int32, within Range) map[Port]int32 {
	taken := make(map[int32]bool, len(kept))
	for _, number := range kept {
		taken[number] = true
	}
	assigned := map[Port]int32{}
	free := within.From
	for _, p := range wantedPorts(of) {
		if number, ok := kept[p]; ok && within.From <= number && number <= within.To {
			assigned[p] = number
			continue
		}
		for free <= within.To && taken[free] {
			free++
		}
		if free <= within.To {
			assigned[p] = free
			taken[free] = true
		}
	}
	return assigned
}

// wantedPorts returns the ports of Gateways, those of older Gateways first.
func wantedPorts(of []gw.Gateway) (ports []Port) {
	ordered := slices.Clone(of)
	slices.SortFunc(ordered, func(a, b gw.Gateway) int { return byAge(&a, &b) })
	for _, g := range ordered {
		for _, l := range g.Spec.Listeners {
			if p := (Port{nameOf(&g), l.Port}); !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	return ports
}
