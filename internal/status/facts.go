// Package status describes the findings of a pass over a CacheNode in the terms of the API. [Of] turns [Facts] into
// the status with its conditions, and [Events] turns a change of the status into events. The package is pure.
//
// It may import the packages that decide, and the packages from whose results they decide. A new condition is a
// method beside the others in conditions.go. An event for a change goes into events.go, and an event for something
// that was done goes into deeds.go.
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

// Facts are the findings of a pass.
type Facts struct {
	// CacheNode is the object as it was read; its status is the previous one.
	CacheNode *v1alpha1.CacheNode
	Now       time.Time
	// Version is the version of this operator. NginxImage is the image that the operator gives to new pods of CacheNodes
	// that name no image.
	Version, NginxImage string
	// Began is the time at which this operator started. The previous status contains nothing about pods that were
	// created later.
	Began time.Time
	Pods  []Pod
	// StatefulSet is nil if it does not exist.
	StatefulSet *appsv1.StatefulSet
	// Config describes what the spec asks for; nil if the pass ended before it had computed this.
	Config *Config
	// Rollout describes how far Config is rolled out; nil if the pass ended before the rollout.
	Rollout *Rollout
	// Sharing defines which pods own keys; nil with routing.mode Local. While the spec is not accepted, it is the
	// decision that the pods keep following.
	Sharing *fleet.Decision
	// Missing are the disks that a placeholder replaces.
	Missing []storage.Missing
	// Lost describes the lost nodes for which pods wait, and why they wait; "" for none.
	Lost string
	// Evicting names the pod that waits to be evicted, and the reason; "" for none.
	Evicting string
	// Movement describes the keys that the edit of the disks moves; nil if it moves none.
	Movement *v1alpha1.KeyMovement
	// TooManyVolumes describes the volumes that are missing because of the limit of the namespace; "" for none.
	TooManyVolumes string
	// Certificate is the certificate of listen.tls; nil if the pass did not read it.
	Certificate *v1alpha1.CertificateStatus
	// Unmet describes the objects that the spec refers to but that do not exist. They do not keep the spec from being
	// accepted.
	Unmet []string
	// Warnings describe valid parts of the spec that are carried out only partly or not at all.
	Warnings []string
	// Done contains the events for what was done, by this pass and by earlier passes whose status could not be written.
	Done []Event
	// Broken is the set of disks that [Events] returned in the last pass.
	Broken Disks
	// Problem keeps the spec from being accepted or from taking effect; nil if there is no problem.
	Problem *Problem
	// Failure is an error that has lasted for some time or is sure to last; nil if there is none.
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
	// Mount is what the kubelet reports about a volume that it cannot mount; "" if nothing is known.
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
	// Stable is the revision to which the pods go back.
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
	// Accepted is true if the spec is valid but waits for a person.
	Accepted bool
	// RetryAfter is the time until the next check, if no event shows earlier that the problem is gone; 0 means never.
	RetryAfter time.Duration
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// wanted returns the number of pods that the spec asks for.
func (f Facts) wanted() int32 { return ptr.Deref(f.CacheNode.Spec.Replicas, 1) }

// replicas returns the wanted number of pods, including pods that stay to hand their keys over.
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

// wantedReady returns the number of ready pods without those that the spec no longer asks for. ready is the number of
// all ready pods.
func (f Facts) wantedReady(ready int32) int32 {
	for _, p := range f.Pods {
		if f.isSurplus(p) && storage.IsReady(p.Pod) {
			ready--
		}
	}
	return min(max(ready, 0), f.wanted())
}

// alsoSurplus returns a text that names the pods that the spec no longer asks for, after a semicolon; "" if there are
// none.
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

// isUnasked returns true for a pod that is older than this operator and whose agent has never answered it.
func (f Facts) isUnasked(p Pod) bool {
	return p.Report == nil && p.CreationTimestamp.Time.Before(f.Began)
}

// Unknown returns true while this operator is new and the agent of a ready pod has yet to answer it. The previous
// status stays until then.
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
