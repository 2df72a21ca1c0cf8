package fleet

import (
	"maps"
	"slices"
)

// decideZones decides for each zone separately. A hand-over in one zone lasts until the hand-overs in all zones end.
// If the pods shared the keys across all zones until now, this decision begins one last hand-over across zones.
func decideZones(in Input) Decision {
	d := Decision{State: State{Fleet: Fleet{Zones: map[string]Zone{}, Disks: in.State.Disks, Serial: in.State.Serial}}}
	changed := in.State.Zones == nil && !in.State.IsZero()
	for _, zone := range zones(in) {
		of := in
		of.State = State{Fleet: in.State.In(zone)}
		if in.State.Zones == nil {
			of.State.Owners, of.State.Previous = in.State.Owners, in.State.Previous
			of.unannounced = true // the first step would make each pod an owner in every zone
		}
		if !of.State.Previous.IsZero() {
			of.State.Until = in.State.Until
		}
		of.Pods = nil
		for _, pod := range in.Pods {
			if pod.Zone == zone {
				of.Pods = append(of.Pods, pod)
			} else if pod.Placed {
				of.elsewhere = append(of.elsewhere, pod.Ordinal)
			}
		}
		one := decide(of)
		changed = changed || one.State.Serial != in.State.Serial
		d.add(zone, one)
	}
	if changed {
		d.State.Serial++
	}
	return d
}

// add adds the decision for a zone to the decision for all zones.
func (d *Decision) add(zone string, of Decision) {
	if !of.State.IsZero() || !of.State.Previous.IsZero() {
		d.State.Zones[zone] = Zone{Owners: of.State.Owners, Previous: of.State.Previous}
	}
	if of.State.Until.After(d.State.Until) {
		d.State.Until = of.State.Until
	}
	d.Keep, d.Guard = max(d.Keep, of.Keep), max(d.Guard, of.Guard)
	d.Announced = d.Announced || of.Announced
	if of.After > 0 {
		d.lookAgain(of.After)
	}
}

// zones returns the zones of all pods, and the zones that have owned keys, sorted.
func zones(in Input) []string {
	names := map[string]bool{}
	for zone := range in.State.Zones {
		names[zone] = true
	}
	for _, pod := range in.Pods {
		if pod.Placed {
			names[pod.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
