package agents

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Target is a pod whose agent the Tracker contacts. The Tracker reads the agent's reports and sends purges to the
// agent.
type Target struct {
	Pod types.NamespacedName
	UID types.UID
	// IP is the pod's address; "" while it has none.
	IP string
	// Ready is true for a pod that is ready. When a pod becomes ready, its agent is read at once, even if the agent
	// often did not answer before.
	Ready bool
	// Leaving is true for a pod that is being deleted. Its agent is not read any more, but still gets purges.
	Leaving bool
}

// Observation is the result of the last reads of an agent.
type Observation struct {
	Report agentapi.Report
	// Answered is the time of the last answer; zero if there was none. Tracked is the time at which the Tracker began to
	// read the agent.
	Answered, Tracked time.Time
	// AssignedAt is the time at which this operator last gave the pod a revision or nudged it; zero if it did neither.
	// To nudge a pod is to change an annotation, so that the kubelet refreshes the pod's volumes.
	AssignedAt time.Time
	// Nudges is the number of times that the pod was nudged since it was given the revision.
	Nudges int
	// Err is the error of the last read; nil if the read succeeded.
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

// IsSilentIn returns true if the agent of a pod is silent. It returns false while the pod has been ready for no
// longer than [silence], even if the pod took long to start.
func (o Observation) IsSilentIn(pod *corev1.Pod, now time.Time) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) <= silence {
			return false
		}
	}
	return o.IsSilent(now)
}

// IsUnknown returns true while it is not known whether the agent answers, because the first read has no result yet.
func (o Observation) IsUnknown(now time.Time) bool {
	return o.Answered.IsZero() && o.Err == nil && now.Sub(o.Tracked) < 2*readTimeout
}

// Patience returns the time to wait for an agent that has not answered since the Tracker began to read it. After this
// time, the agent has either answered or counts as silent.
func (o Observation) Patience(now time.Time) time.Duration {
	return max(silence-now.Sub(o.Tracked), 0) + time.Second
}
