// Package rollout decides which pod takes which revision of the configuration next. The package is pure. The state of a
// rollout is in the ConfigMap, in annotations of the pods and in the reports of their agents. So a restarted operator
// continues where the previous one stopped.
//
// A new revision is the candidate. One pod, the canary, takes the candidate first. When the canary has run it for long
// enough, the other pods follow, a few at a time. When all pods run the candidate, it becomes stable. If a pod refuses
// it, all pods go back to the stable revision. The refused revision is not tried again until a person requests this or
// the spec requires another revision. If the spec changes during a rollout, the new revision replaces the candidate.
//
// The package may import agentapi and the packages that agentapi imports. For a new reason to wait, add a field to
// Input and a case to Decide.
package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// NudgeAfter is the time within which a pod must report a revision that was assigned to it. After that time, the
// operator nudges the pod, which means that it makes the kubelet refresh the pod's volumes again. The time doubles with
// each nudge. Sometimes a kubelet that has just refreshed the volumes for another reason misses a new revision.
const NudgeAfter = time.Second

// maxNudges is the maximum number of times that the time between two nudges doubles.
const maxNudges = 7

// State is the state that the ConfigMap stores.
type State struct {
	// Stable and Candidate are revisions. Candidate is "" if no candidate is being tried.
	Stable, Candidate string
	Refused           *agentapi.Refusal
}

// Pod describes the last known state of a pod.
type Pod struct {
	Name string
	// Ready is true if the kubelet reports the pod as ready. ReadySince is the time since which the kubelet reports this
	// state. Silent is true if the agent does not answer.
	Ready, Silent bool
	ReadySince    time.Time
	// Assigned is the revision in the pod's annotation. AssignedAt is the time of the assignment or of the last nudge;
	// zero if it is not known. Nudges counts the nudges since the assignment.
	Assigned   string
	AssignedAt time.Time
	Nudges     int
	// Revision is the revision that nginx has run since Since; "" if it is not known.
	Revision string
	Since    time.Time
	// Refused is the refusal that the agent reports; nil if it reports none.
	Refused *agentapi.Refusal
	// Current is true if the pod was created from the wanted template.
	Current bool
}

// serves returns true for a ready pod whose agent answers. The rollout waits until all such pods have taken their
// revisions.
func (p Pod) serves() bool { return p.Ready && !p.Silent }

// isHurt returns true for a pod to which the revision was assigned and that is not ready, although its agent answers.
// The revision may be the reason.
func (p Pod) isHurt(revision string) bool { return p.Assigned == revision && !p.Ready && !p.Silent }

// Input contains everything on which the decision depends.
type Input struct {
	State State
	// Wanted is the revision of the current spec.
	Wanted string
	// NewPods is true if a running nginx cannot take the wanted revision, so that the pods must be replaced.
	NewPods bool
	// Pods are the pods that are not being deleted.
	Pods []Pod
	// Settled is true if the StatefulSet controller creates pods from the wanted template, and no change of the
	// StatefulSet is in progress.
	Settled bool
	// Ordered is true if pods must be created from the wanted template in ascending order. This is necessary if some pods
	// do not have a volume of the template.
	Ordered bool
	// Replicas is the wanted number of pods.
	Replicas int
	// Canary is the time for which the first pod must run the revision before other pods take it. Width is the number of
	// these other pods that may take it at the same time.
	Canary time.Duration
	Width  int
	// Found is the time for which a new pod must be ready before another ready pod is replaced.
	Found time.Duration
	Retry string
	Now   time.Time
}

// Decision contains what to do next.
type Decision struct {
	// State is the new state, which the ConfigMap must store.
	State State
	// Assign contains the revisions that pods get, by the name of the pod. Nudge contains the names of the pods that the
	// operator must nudge.
	Assign map[string]string
	Nudge  []string
	// Replace is the pod that must be replaced next if the disruption budget allows that; "" if there is none.
	Replace string
	// Done is true if every pod that serves runs the wanted revision.
	Done bool
	// Waiting is true if a pod will probably report soon.
	Waiting bool
	// After is the time after which Decide must be called again even if nothing changes; 0 means that no such call is
	// needed.
	After time.Duration
}

// Decide returns what to do next.
func Decide(in Input) Decision {
	d := Decision{State: in.State, Assign: map[string]string{}}
	if d.State.Stable == "" && !slices.ContainsFunc(in.Pods, func(p Pod) bool { return p.Revision != "" }) {
		d.State.Stable = in.Wanted // no pod is known to run a revision
	}
	slices.SortFunc(in.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	if in.Wanted != d.State.Stable {
		d.State.Refused = refusal(in, d.State)
	}
	switch {
	case in.Wanted == d.State.Stable:
		d.State.Candidate, d.State.Refused = "", nil
		d.all(in, in.Wanted)
		d.replace(in, true)
	case d.State.Refused != nil:
		d.State.Candidate = ""
		if d.State.Stable != "" { // if the stable revision was lost, the pods keep the revisions that they have
			d.all(in, d.State.Stable)
		}
		d.Done = false
	default:
		d.State.Candidate = in.Wanted
		d.try(in)
	}
	return d
}

// refusal returns the refusal of the wanted revision. This is the stored refusal, or a refusal that a pod reports. It
// returns nil if there is none.
func refusal(in Input, s State) *agentapi.Refusal {
	if r := s.Refused; r != nil && r.Revision == in.Wanted && r.Retry == in.Retry {
		return r
	}
	for _, p := range in.Pods {
		if r := p.Refused; r != nil && r.Revision == in.Wanted && r.Retry == in.Retry && p.Assigned == in.Wanted {
			refused := *r
			refused.Pod = p.Name
			return &refused
		}
	}
	return nil
}

// all assigns the stable revision to all pods at the same time, because the stable revision needs no canary.
func (d *Decision) all(in Input, revision string) {
	d.Done = true
	for _, p := range in.Pods {
		d.assign(in, p, revision)
		if p.serves() && p.Revision != revision {
			d.Done = false
		}
	}
}

// try advances the rollout of the candidate by one step.
func (d *Decision) try(in Input) {
	able := slices.Clone(in.Pods)
	if in.NewPods {
		able = slices.DeleteFunc(able, func(p Pod) bool { return !p.Current })
	}
	proven := d.isProven(in, able)
	d.replace(in, proven || len(able) == 0)
	ready := slices.ContainsFunc(able, func(p Pod) bool { return p.Ready })
	if ready && !proven {
		if canary := canary(able, in); canary != nil {
			d.assign(in, *canary, in.Wanted)
		}
		return
	}
	d.follow(in, able, !ready)
	if len(able) == len(in.Pods) && haveTaken(in) {
		d.State.Stable, d.State.Candidate = in.Wanted, ""
		d.Done = true
	}
}

// replace picks the next pod that must be replaced. Pods are replaced one at a time, in ascending order. If the order
// does not matter, pods that are not ready come first. If more is false, replace picks no pod, because the candidate
// has not yet run for long enough in a first pod.
func (d *Decision) replace(in Input, more bool) {
	starts := func(p Pod) bool { return p.Current && !p.Ready }
	if !in.Settled || !more || len(in.Pods) < in.Replicas || slices.ContainsFunc(in.Pods, starts) {
		return
	}
	old := slices.DeleteFunc(slices.Clone(in.Pods), func(p Pod) bool { return p.Current })
	slices.SortStableFunc(old, func(a, b Pod) int {
		switch {
		case a.Ready == b.Ready, in.Ordered:
			return 0
		case b.Ready:
			return -1
		}
		return 1
	})
	if len(old) > 0 && (!old[0].Ready || d.areFound(in)) {
		d.Replace = old[0].Name
	}
}

// areFound returns true if all new pods have been ready for so long that the other pods have found them.
func (d *Decision) areFound(in Input) bool {
	found := true
	for _, p := range in.Pods {
		if left := in.Found - in.Now.Sub(p.ReadySince); p.Current && left > 0 {
			d.lookAgain(left)
			found = false
		}
	}
	return found
}

// haveTaken returns true if all pods that serve run the candidate, and the candidate has hurt no pod (see isHurt). If
// there are pods, at least one of them must serve. If the candidate needs new pods, all wanted pods must exist.
func haveTaken(in Input) bool {
	took := 0
	for _, p := range in.Pods {
		switch {
		case p.isHurt(in.Wanted), p.serves() && p.Revision != in.Wanted:
			return false
		case p.serves():
			took++
		}
	}
	if in.NewPods && len(in.Pods) < in.Replicas {
		return false
	}
	return took > 0 || len(in.Pods) == 0
}

// isProven returns true if a pod has run the candidate for long enough.
func (d *Decision) isProven(in Input, pods []Pod) bool {
	proven := false
	for _, p := range pods {
		if !p.serves() || p.Revision != in.Wanted {
			continue
		}
		if left := in.Canary - in.Now.Sub(p.Since); left <= 0 {
			proven = true
		} else {
			d.lookAgain(left)
		}
	}
	return proven
}

// follow gives the candidate to the pods that have not taken it yet, to at most Width ready pods at a time. A pod that
// is not ready counts towards Width only if the candidate may be the reason. If the parameter all is true, every pod
// gets the candidate at once.
func (d *Decision) follow(in Input, pods []Pod, all bool) {
	waiting := 0
	for _, p := range pods {
		if p.isHurt(in.Wanted) || (p.serves() && p.Assigned == in.Wanted && p.Revision != in.Wanted) {
			waiting++
		}
	}
	for _, p := range pods {
		counts := p.Ready && p.Assigned != in.Wanted && p.Revision != in.Wanted
		if !all && counts && waiting >= max(in.Width, 1) {
			continue
		}
		if counts {
			waiting++
		}
		d.assign(in, p, in.Wanted)
	}
}

// canary returns the pod that takes the candidate first. It prefers a pod to which the candidate is already assigned,
// even if that pod is no longer ready. Otherwise it prefers a pod with an earlier candidate, and otherwise the pod with
// the highest ordinal. The result is nil if serves and isHurt return false for all pods.
func canary(pods []Pod, in Input) *Pod {
	var best *Pod
	rank := func(p Pod) int {
		switch p.Assigned {
		case in.Wanted:
			return 2
		case in.State.Stable, "":
			return 0
		}
		return 1
	}
	for i, p := range pods {
		if (p.serves() || p.isHurt(in.Wanted)) && (best == nil || rank(p) >= rank(*best)) {
			best = &pods[i]
		}
	}
	return best
}

// assign assigns a revision to a pod. If the revision was assigned some time ago and the pod still does not run it,
// assign nudges the pod.
func (d *Decision) assign(in Input, p Pod, revision string) {
	switch {
	case p.Assigned != revision:
		d.Assign[p.Name] = revision
		d.lookAgain(NudgeAfter)
		d.Waiting = true
	case p.Revision != revision && p.serves():
		after := NudgeAfter << min(p.Nudges, maxNudges)
		if left := after - in.Now.Sub(p.AssignedAt); left > 0 {
			d.lookAgain(left)
		} else {
			d.Nudge = append(d.Nudge, p.Name)
			d.lookAgain(after)
		}
		d.Waiting = d.Waiting || p.Nudges < maxNudges
	}
}

func (d *Decision) lookAgain(after time.Duration) {
	if d.After == 0 || after < d.After {
		d.After = after
	}
}
