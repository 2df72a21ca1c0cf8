// Package status says what a pass over a CacheNode has found, in the terms of the API: [Of] turns [Facts] into the status with
// its conditions, [Events] into events. It is pure.
package status

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Facts are what a pass has found.
type Facts struct {
	// CacheNode is as it was read: its status is that of before.
	CacheNode *v1alpha1.CacheNode
	Now       time.Time
	// Began is when this operator began to work: of pods that are younger, nothing was said before.
	Began time.Time
	Pods  []Pod
	// StatefulSet is nil while there is none.
	StatefulSet *appsv1.StatefulSet
	// Config is what the spec asks for; nil where the pass did not come so far.
	Config *Config
	// Rollout is how far that is rolled out; nil where the pass did not come so far.
	Rollout *Rollout
	// Missing are the disks that placeholders stand in for.
	Missing []storage.Missing
	// Lost says which lost nodes are waited for, and why; "" for none.
	Lost string
	// Evicting says which pod waits to be evicted, and why; "" for none.
	Evicting string
	// Movement is what the edit of the disks moves; nil if nothing. Held: it waits to be acknowledged.
	Movement *v1alpha1.KeyMovement
	Held     bool
	// Unmet are what the spec refers to and what does not exist, though the spec is accepted.
	Unmet []string
	// Warnings are about what is valid and is not, or not wholly, done.
	Warnings []string
	// Problem keeps the spec from being accepted; nil if nothing does.
	Problem *Problem
	// Failure is an error that has lasted; nil if there is none.
	Failure error
	// Incomplete: the pass ended with an error that may pass, so the conditions of before stand.
	Incomplete bool
}

// Pod is a pod with what its agent says.
type Pod struct {
	*corev1.Pod
	// Report is nil while the agent has never answered this operator. Its disks are those that the spec has.
	Report *agentapi.Report
	// Silent: the agent has not answered for a while.
	Silent bool
	// Mount is what the kubelet says of a volume that it cannot mount; "" where nothing is known.
	Mount string
}

// Config is what the spec asks for.
type Config struct {
	// Revision is that of the configuration.
	Revision string
	Plan     shard.Plan
	// Tuning says what the operator chose, and why.
	Tuning []string
}

// Rollout is how far a revision is rolled out.
type Rollout struct {
	// Done: every pod that serves runs the revision.
	Done bool
	// Replacing is the pod that is to be replaced next; "" for none.
	Replacing string
	// Settled: the StatefulSet makes pods from the wanted template. Remaking: the StatefulSet itself is made again.
	Settled, Remaking bool
	// Stable is the revision that the pods go back to.
	Stable  string
	Refused *agentapi.Refusal
}

// Problem is an error that a user can mend and the operator cannot.
type Problem struct {
	// Reason and Message are those of the condition Accepted.
	Reason, Message string
	// Stalled: only an edit of the spec helps. Otherwise the problem ends when something else changes.
	Stalled bool
	// Accepted: the spec is right, but waits for a person.
	Accepted bool
	// RetryAfter is when to look again, where no event tells that the problem is gone; 0 for never.
	RetryAfter time.Duration
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

func (f Facts) replicas() int32 { return ptr.Deref(f.CacheNode.Spec.Replicas, 1) }

func (f Facts) refusal() *agentapi.Refusal {
	if f.Rollout == nil {
		return nil
	}
	return f.Rollout.Refused
}

// isUnasked is true for a pod from before this operator whose agent has never answered it.
func (f Facts) isUnasked(p Pod) bool {
	return p.Report == nil && p.CreationTimestamp.Time.Before(f.Began)
}

// Unknown is true while a ready pod's agent has yet to be asked, as this operator is new: what was said before stands.
func (f Facts) Unknown() bool {
	return f.Problem == nil && f.CacheNode.Status.ObservedGeneration > 0 && f.isEarly()
}

// isEarly is true while a ready pod's agent has yet to answer this operator, or to fall silent.
func (f Facts) isEarly() bool {
	return slices.ContainsFunc(f.Pods, func(p Pod) bool { return p.Report == nil && !p.Silent && storage.IsReady(p.Pod) })
}

// disks are the reports on the disks of a pod.
func (f Facts) disks(p Pod) []agentapi.DiskReport {
	if p.Report == nil {
		return nil
	}
	return p.Report.Disks
}
