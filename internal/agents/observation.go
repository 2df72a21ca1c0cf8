package agents

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Target is a pod whose agent is to be read and to get purges.
type Target struct {
	Pod types.NamespacedName
	UID types.UID
	// IP is the pod's address; "" while it has none.
	IP string
	// Ready is true for a pod that is ready. A pod that becomes ready is read at once, however often its agent did not
	// answer before.
	Ready bool
	// Leaving is true for a pod that is being deleted. Its agent is not read any more, but gets purges.
	Leaving bool
}

// Observation is the result of the last reads of an agent.
type Observation struct {
	Report agentapi.Report
	// Answered is the time of the last answer; zero if there was none. Tracked is since when the agent is read.
	Answered, Tracked time.Time
	// AssignedAt is when this operator last gave the pod a revision or nudged it; zero if it did neither.
	AssignedAt time.Time
	// Nudges is how often the pod was nudged since it was given the revision.
	Nudges int
	// Err is why the last read failed; nil if it did not.
	Err error
}

// IsSilent returns true for an agent whose last read failed and that has not answered for longer than [silence].
func (o Observation) IsSilent(now time.Time) bool {
	if o.Err == nil {
		return false
	}
	last := o.Answered
	if last.IsZero() {
		last = o.Tracked
	}
	return now.Sub(last) > silence
}

// IsSilentIn returns true if the agent of a pod is silent. The agent is not silent while the pod has been ready for
// less than [silence], however long the pod took to start.
func (o Observation) IsSilentIn(pod *corev1.Pod, now time.Time) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) <= silence {
			return false
		}
	}
	return o.IsSilent(now)
}

// IsUnknown returns true while it is not known whether the agent answers: the Tracker has yet to ask it.
func (o Observation) IsUnknown(now time.Time) bool {
	return o.Answered.IsZero() && o.Err == nil && now.Sub(o.Tracked) < 2*readTimeout
}

// Patience returns the time after which an agent that has not answered since it is read has answered, or counts as
// silent.
func (o Observation) Patience(now time.Time) time.Duration {
	return max(silence-now.Sub(o.Tracked), 0) + time.Second
}
