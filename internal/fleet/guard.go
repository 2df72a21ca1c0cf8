package fleet

import "slices"

// Guard defines whether pods may be evicted. Of two guards, the greater value applies.
type Guard int

const (
	// Unguarded means that pods may be evicted: there is no other pod that could take over their keys, or there is no
	// hand-over.
	Unguarded Guard = iota
	// NeedsCordon means that a node must be cordoned before its pods may be evicted. Without this guard, kubectl drain
	// could evict pods directly after it has cordoned the node, before the hand-over.
	NeedsCordon
	// HandedOver means that a pod on a cordoned node has handed its keys over, and may be evicted.
	HandedOver
	// HandingOver means that a pod on a cordoned node is handing its keys over.
	HandingOver
)

// Closed returns true if no pod may be evicted now.
func (g Guard) Closed() bool { return g == NeedsCordon || g == HandingOver }

// guard sets d.Guard, which defines whether pods may be evicted.
func (d *Decision) guard(in Input) {
	if in.Handover > 0 && len(d.State.Present()) > 1 {
		d.Guard = NeedsCordon
	}
	for _, pod := range in.Pods {
		if !pod.Leaves || pod.ReadySince.IsZero() {
			continue
		}
		leaving := HandedOver
		owns := slices.Contains(d.State.Present(), pod.Ordinal)
		if (!owns || d.Announced) && slices.Contains(d.State.Previous.Present(), pod.Ordinal) {
			leaving = HandingOver
		}
		d.Guard = max(d.Guard, leaving)
	}
}
