package fleet

import (
	"slices"
	"time"
)

// joinWait is the longest time for which ready pods wait for pods that are starting, so that all of them get keys at
// once.
const joinWait = 30 * time.Second

// announceWait is the maximum duration of the first step of a change of owners; see [Decide]. The step takes that
// long if some pods do not learn of the change.
const announceWait = 10 * time.Second

// Pod is a pod as the operator sees it.
type Pod struct {
	Ordinal int
	// Able is true if the pod can answer requests from other pods: the pod was created for this, and its agent supports
	// it.
	Able bool
	// Unasked is true until the pod's agent has reported its features.
	Unasked bool
	// ReadySince is the time at which the pod became ready; zero if it is not ready.
	ReadySince time.Time
	// Leaves is true if the pod will be gone soon, because its node is cordoned. Spent is true if none of its disks can
	// be used.
	Leaves, Spent bool
	// Zone is the zone of the pod's node; "" if the node has no zone. Placed is false if the pod has no node yet.
	Zone   string
	Placed bool
}

// State is the data that one decision passes on to the next decision.
type State struct {
	Fleet
	// Until is the time at which the hand-over from Previous ends.
	Until time.Time
}

// Apart returns the state in which each pod serves all keys.
func Apart(s State) State {
	if s.Owning() > 0 {
		s.Serial++
	}
	s.Owners, s.Previous, s.Zones, s.Until = Owners{}, Owners{}, nil, time.Time{}
	return s
}

// Input contains everything on which a decision depends.
type Input struct {
	State State
	Pods  []Pod
	// Replicas is the wanted number of pods.
	Replicas int
	// Handover is the time for which pods fetch requested objects from the previous owners of their keys; 0 if there is
	// no hand-over.
	Handover time.Duration
	// Known is true if all ready pods already use State to route requests.
	Known bool
	Now   time.Time
	// Zoned is true if each zone has its own copy of a key.
	Zoned bool
	// elsewhere are the ordinals of the pods in other zones.
	elsewhere []int
	// unannounced is true for a change that is made at once, without the first step.
	unannounced bool
}

// Decision defines which pods own keys, and what the pods must do for that.
type Decision struct {
	State State
	// Keep is the number of pods that must stay, because pods beyond Replicas are still handing their keys over; 0 if
	// there are no such pods.
	Keep int
	// Guard shows whether pods may be evicted.
	Guard Guard
	// Announced is true in the first step of a change, until all pods know from which previous owners they may have to
	// fetch objects.
	Announced bool
	// After is the time to wait until the next call of Decide, if nothing changes before; 0 means that no further call
	// is needed.
	After time.Duration
}

// Decide decides which pods own keys.
//
// The first pods become members when all ready pods are able to answer other pods. Later, a pod becomes a member when
// it is ready. It stays a member while it is restarted, and its stand-ins answer in the meantime. It stops being a
// member when the CacheNode is scaled down and the pod is no longer wanted. A member is away while its node is
// cordoned, or while none of its disks can be used. It then stays away until it is ready again. If all members would be
// away, no member counts as away. While leaving pods hand their keys over, no pod joins.
//
// A pod that gets keys by a change fetches requested objects of these keys from the pod that had the keys before. A
// change has two steps. In the first step, the present owners still own the keys, and also become the previous
// owners. When all pods know that, the second step gives the keys to the new owners. Without the first step, a pod
// that knows of the change could ask a pod that does not know of it. The asked pod would then fetch the object from
// the origin.
func Decide(in Input) Decision {
	if in.Zoned {
		return decideZones(in)
	}
	in.State.Zones = nil
	return decide(in)
}

// decide decides which pods own keys in one zone, or in all zones together.
func decide(in Input) Decision {
	d := Decision{State: in.State}
	wanted := Owners{Members: d.members(in)}
	for _, ordinal := range wanted.Members {
		if in.isAway(ordinal) {
			wanted.Away = append(wanted.Away, ordinal)
		}
	}
	if len(wanted.Away) == len(wanted.Members) {
		wanted.Away = nil
	}
	if !wanted.equal(in.State.Owners) {
		d.change(in, wanted)
	}
	if !in.isAnnounced() { // a shorter hand-over in the spec takes effect at once
		d.State.Until = earliest(d.State.Until, in.Now.Add(in.Handover))
	}
	if left := d.State.Until.Sub(in.Now); d.State.Previous.IsZero() {
		// no hand-over
	} else if left <= 0 {
		d.State.Serial++
		d.State.Previous, d.State.Until = Owners{}, time.Time{}
	} else {
		d.lookAgain(left)
		d.hold(in)
	}
	d.guard(in)
	return d
}

// earliest returns the earlier one of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// change carries out the next step of a change of owners.
func (d *Decision) change(in Input, wanted Owners) {
	next := State{Fleet: d.State.Fleet}
	next.Serial++
	switch {
	case in.Handover == 0 || in.State.IsZero():
		next.Owners, next.Previous = wanted, Owners{}
	case in.keepsPrevious(wanted):
		next.Owners, next.Until = wanted, in.Now.Add(in.Handover)
	case in.unannounced, in.isAnnounced() && (in.Known || !in.State.Until.After(in.Now)):
		next.Owners, next.Previous, next.Until = wanted, in.State.Owners, in.Now.Add(in.Handover)
	case in.isAnnounced():
		d.Announced = true
		return
	default:
		d.Announced = true
		next.Previous, next.Until = in.State.Owners, in.Now.Add(announceWait)
	}
	d.State = next
}

// isAnnounced returns true in the first step of a change, in which the present owners are the previous owners too.
func (in Input) isAnnounced() bool {
	return in.State.Previous.equal(in.State.Owners) && !in.State.Until.IsZero()
}

// isAway returns true for a member that must own no keys. A member that owns no keys gets keys when it is ready.
func (in Input) isAway(ordinal int) bool {
	owns := slices.Contains(in.State.Present(), ordinal)
	i := slices.IndexFunc(in.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
	if i < 0 {
		return !owns
	}
	pod := in.Pods[i]
	return pod.Leaves || pod.Spent || !owns && (pod.ReadySince.IsZero() || !pod.Able)
}

// hold sets Keep, so that the pods from which other pods fetch objects during a hand-over are not scaled away.
func (d *Decision) hold(in Input) {
	for _, pod := range in.Pods {
		if pod.ReadySince.IsZero() || !slices.Contains(d.State.Previous.Present(), pod.Ordinal) {
			continue
		}
		if pod.Ordinal >= in.Replicas && in.Replicas > 0 {
			d.Keep = max(d.Keep, pod.Ordinal+1)
		}
	}
}

// members returns the pods that own keys, or that would own keys if they were not away.
func (d *Decision) members(in Input) []int {
	var members, joining []int
	for _, pod := range in.State.Members {
		if pod < in.Replicas && !slices.Contains(in.elsewhere, pod) {
			members = append(members, pod)
		}
	}
	var waiting time.Duration
	starting := missing(in, members)
	for _, pod := range in.Pods {
		if pod.Ordinal >= in.Replicas || slices.Contains(members, pod.Ordinal) {
			continue
		}
		switch {
		case pod.ReadySince.IsZero(), pod.Unasked:
			starting++
		case pod.Able && !pod.Leaves && !pod.Spent:
			joining = append(joining, pod.Ordinal)
			waiting = max(waiting, in.Now.Sub(pod.ReadySince))
		}
	}
	if len(joining) > 0 && starting > 0 && waiting < joinWait {
		d.lookAgain(joinWait - waiting)
		return members
	}
	if len(joining) > 0 && len(in.leaving(joining)) > 0 { // after a change, no pod would ask the leaving pods
		d.lookAgain(in.State.Until.Sub(in.Now))
		return members
	}
	if in.State.IsZero() && slices.ContainsFunc(in.Pods, in.isUnable) {
		return members
	}
	members = append(members, joining...)
	members = append(members, in.between(members)...)
	slices.Sort(members)
	return members[:min(len(members), MaxMembers)]
}

// isUnable returns true for a ready pod that cannot answer other pods. While there is such a pod, no pods begin to
// share keys.
func (in Input) isUnable(pod Pod) bool {
	return pod.Ordinal < in.Replicas && !pod.ReadySince.IsZero() && !pod.Unasked && !pod.Able
}

// between returns the pods that are not members, but have a lower ordinal than a member. They become members that are
// away, so that the plan does not depend on which pod joins first.
func (in Input) between(members []int) (pods []int) {
	if len(members) == 0 {
		return nil
	}
	for ordinal := range slices.Max(members) {
		isHere := slices.ContainsFunc(in.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
		if !slices.Contains(members, ordinal) && (isHere || !in.Zoned) {
			pods = append(pods, ordinal)
		}
	}
	return pods
}

// missing counts the pods that the spec requests and that do not exist yet.
func missing(in Input, members []int) (n int) {
	for ordinal := range in.Replicas {
		known := slices.Contains(members, ordinal) || slices.Contains(in.elsewhere, ordinal) ||
			slices.ContainsFunc(in.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
		if !known {
			n++
		}
	}
	return n
}

func (d *Decision) lookAgain(after time.Duration) {
	if d.After == 0 || after < d.After {
		d.After = after
	}
}

// leaving returns the ready pods that own no keys any more and are handing their keys over. The result does not contain
// the pods in the parameter without.
func (in Input) leaving(without []int) (pods []int) {
	if !in.State.Until.After(in.Now) {
		return nil
	}
	for _, pod := range in.Pods {
		hands := slices.Contains(in.State.Previous.Present(), pod.Ordinal) &&
			!slices.Contains(in.State.Present(), pod.Ordinal) && !slices.Contains(without, pod.Ordinal)
		if hands && !pod.ReadySince.IsZero() && !pod.Spent {
			pods = append(pods, pod.Ordinal)
		}
	}
	return pods
}

// keepsPrevious returns true if a change during a hand-over must not change the previous owners. There are two
// conditions: some pods are still leaving after the change, and the previous owners include all pods that own keys
// after the change.
func (in Input) keepsPrevious(wanted Owners) bool {
	isNew := func(pod int) bool { return !slices.Contains(in.State.Previous.Present(), pod) }
	return len(in.leaving(wanted.Present())) > 0 && !slices.ContainsFunc(wanted.Present(), isNew)
}

func (o Owners) equal(p Owners) bool {
	return slices.Equal(o.Members, p.Members) && slices.Equal(o.Away, p.Away)
}
