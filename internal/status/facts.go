// Package status describes, in the terms of the API, what a pass has found out about a CacheNode. [Of] turns [Facts]
// into the status with its conditions, and [Events] turns a change of the status into events. The package is pure.
//
// It may import the packages that make decisions, and the packages from which these get their input. Add a new
// condition as a method in conditions.go. Add an event for a change in events.go, and an event for an action of the
// operator in deeds.go.
package status

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Facts contains what a pass has read, decided and done.
type Facts struct {
	// CacheNode is the object as the pass read it. So its status is the previous status.
	CacheNode *v1alpha1.CacheNode
	Now       time.Time
	// Version is the version of this operator. NginxImage is the image that the operator gives to new pods of CacheNodes
	// that name no image.
	Version, NginxImage string
	// Began is the time at which this operator started. The status that the previous operator wrote contains nothing about
	// pods that were created later.
	Began time.Time
	Pods  []Pod
	// StatefulSet is nil if it does not exist.
	StatefulSet *appsv1.StatefulSet
	// Config describes what the spec asks for; nil if the pass ended before it had computed this.
	Config *Config
	// Rollout describes how far Config is rolled out; nil if the pass ended before the rollout.
	Rollout *Rollout
	// Sharing defines which pods own keys; nil with routing.mode Local. While the spec is not accepted, Sharing is the
	// earlier decision, which the pods still follow.
	Sharing *fleet.Decision
	// Missing are the disks that a placeholder replaces.
	Missing []storage.Missing
	// Lost describes the lost nodes whose pods wait before they move to other nodes, and why they wait; "" for none.
	Lost string
	// Evicting names the pod that waits to be evicted, and the reason; "" for none.
	Evicting string
	// Movement describes the keys that the edit of the disks moves; nil if it moves none.
	Movement *v1alpha1.KeyMovement
	// TooManyVolumes describes the volumes that are missing because of the limit of the namespace; "" for none.
	TooManyVolumes string
	// Certificate is the certificate of listen.tls; nil if the pass did not read it.
	Certificate *v1alpha1.CertificateStatus
	// Unmet describes the objects that the spec names but that do not exist. The spec can be accepted without these
	// objects.
	Unmet []string
	// Warnings describe valid parts of the spec that are carried out only partly or not at all.
	Warnings []string
	// Done contains the events for the actions of this pass, and of earlier passes whose status could not be written.
	Done []Event
	// Broken is the set of disks that [Events] returned in the previous pass.
	Broken Disks
	// Problem is the reason why the spec is not accepted or does not take effect; nil if there is no problem.
	Problem *Problem
	// Failure is an error that has lasted for some time or certainly will last; nil if there is none.
	Failure error
	// Incomplete is true if the pass ended with an error that may be transient. The conditions then stay as they were.
	Incomplete bool
}

// Pod is a pod together with the report of its agent.
type Pod struct {
	*corev1.Pod
	// Report is nil until the agent has answered this operator for the first time. It contains only the disks of the
	// spec and the leaving disks.
	Report *agentapi.Report
	// Silent is true if the agent has not answered for a while.
	Silent bool
	// Mount is the kubelet's message about a volume that it cannot mount; "" if there is no such message.
	Mount string
}

// Config describes what the spec asks for.
type Config struct {
	// Revision is the ID of the revision.
	Revision string
	Plan     shard.Plan
	// Tuning lists what the operator chose, and why.
	Tuning []string
}

// Rollout describes how far a revision is rolled out.
type Rollout struct {
	// Done is true if every pod that serves runs the revision.
	Done bool
	// Replacing is the pod to be replaced next; "" for none.
	Replacing string
	// Settled is true if the StatefulSet controller creates pods from the wanted template. Remaking is true if the
	// StatefulSet itself is being recreated.
	Settled, Remaking bool
	// Stable is the revision to which the pods return if they refuse a candidate.
	Stable  string
	Refused *agentapi.Refusal
}

// Problem is an error that a user can fix and the operator cannot.
type Problem struct {
	// Reason and Message are the fields of the condition Accepted.
	Reason, Message string
	// Stalled is true if only an edit of the spec can solve the problem. Otherwise, the problem ends when something else
	// changes.
	Stalled bool
	// Accepted is true if the spec is valid but does not take effect until a person acts.
	Accepted bool
	// RetryAfter is the time until the next check. The check is earlier if an event shows that the problem may be gone. 0
	// means that only an event causes a check.
	RetryAfter time.Duration
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// wanted returns the number of pods that the spec asks for.
func (f Facts) wanted() int32 { return ptr.Deref(f.CacheNode.Spec.Replicas, 1) }

// replicas returns the wanted number of pods, plus the pods that stay only until they have handed their keys over.
func (f Facts) replicas() int32 {
	kept := 0
	if f.Sharing != nil {
		kept = f.Sharing.Keep
	}
	return max(f.wanted(), int32(kept))
}

// isSurplus returns true for a pod that the spec no longer asks for. Such a pod hands its keys over, or is being
// removed.
func (f Facts) isSurplus(p Pod) bool {
	ordinal, ok := naming.Ordinal(f.CacheNode.Name, p.Name)
	return ok && int64(ordinal) >= int64(f.wanted())
}

// wantedReady returns the number of ready pods, without the pods that the spec no longer asks for. ready is the number
// of all ready pods.
func (f Facts) wantedReady(ready int32) int32 {
	for _, p := range f.Pods {
		if f.isSurplus(p) && storage.IsReady(p.Pod) {
			ready--
		}
	}
	return min(max(ready, 0), f.wanted())
}

// alsoSurplus returns a text about the pods that the spec no longer asks for; "" if there are none. The text begins
// with a semicolon, because it follows another text.
func (f Facts) alsoSurplus() string {
	var stay, leave []string
	for _, p := range f.Pods {
		switch ordinal, _ := naming.Ordinal(f.CacheNode.Name, p.Name); {
		case !f.isSurplus(p):
		case p.DeletionTimestamp.IsZero() && ordinal < int(f.replicas()):
			stay = append(stay, p.Name)
		default:
			leave = append(leave, p.Name)
		}
	}
	text := ""
	if len(stay) > 0 {
		text += "; removed after their keys are handed over: " + listedBy(stay, ", ")
	}
	if len(leave) > 0 {
		text += "; being removed: " + listedBy(leave, ", ")
	}
	return text
}

func (f Facts) refusal() *agentapi.Refusal {
	if f.Rollout == nil {
		return nil
	}
	return f.Rollout.Refused
}

// isUnasked returns true for a pod that was created before this operator started and whose agent has never answered
// this operator.
func (f Facts) isUnasked(p Pod) bool {
	return p.Report == nil && p.CreationTimestamp.Time.Before(f.Began)
}

// Unknown returns true while the agent of a ready pod has not answered this operator since the operator started. Until
// the agent answers or counts as silent, the previous status stays.
func (f Facts) Unknown() bool {
	return f.Problem == nil && f.CacheNode.Status.ObservedGeneration > 0 && f.isEarly()
}

// isEarly returns true while the agent of a ready pod has neither answered this operator nor fallen silent.
func (f Facts) isEarly() bool {
	return slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Report == nil && !p.Silent && storage.IsReady(p.Pod) })
}

// disks returns the reports on the disks of the pod.
func (p Pod) disks() []agentapi.DiskReport {
	if p.Report == nil {
		return nil
	}
	return p.Report.Disks
}
