package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
	"github.com/cachenode/cachenode-operator/internal/storage/reader"
)

// pathAgain is how long a pass waits before it looks again for a free path. A volume of this operator that goes causes
// a pass at once, and so does a node; only the volumes of others are not watched.
const pathAgain = 10 * time.Minute

// stored is what the storage of a CacheNode was planned from, and the plan.
type stored struct {
	// state is nil if not even what every plan needs could be read. Then nothing is planned.
	state   *storage.State
	actions storage.Actions
	// err is why something could not be read; nil if all was read that the plan needs. With an error, only what keeps
	// pods running is carried out.
	err error
}

// planStorage reads what the plan needs, and plans. Objects that are about to be deleted are read again from the API
// server, so an operator that cannot reach it deletes nothing.
func (r *CacheNodeReconciler) planStorage(ctx context.Context, s scope, o observed, out *outcome) (plan stored) {
	state := &storage.State{
		CacheNode: o.leaving.cacheNode, Now: s.now, Pods: o.pods, Verbs: storage.ReadVerbs(s.cacheNode),
		Since: s.last.storage, Disks: o.agents.unhealthy(),
		Allowed: r.Cluster.Policy.AllowsLocalPath, MaxVolumes: r.Cluster.MaxVolumes,
		Scout: manifest.ScoutImage{Image: r.Cluster.Images.Agent, PullPolicy: r.Cluster.Images.AgentPullPolicy},
	}
	from := reader.Reader{
		Cache: r.Client, Live: r.Live, Own: byInstance(s.cacheNode), Scouts: byScoutsOf(s.cacheNode),
	}
	if plan.err = from.Read(ctx, state); plan.err != nil {
		return plan
	}
	plan.err = from.More(ctx, state)
	plan.state, plan.actions = state, storage.Plan(*state)
	if plan.err != nil { // the pass goes on with what was read, but deletes nothing by force
		plan.actions.Keep.Releases = slices.DeleteFunc(plan.actions.Keep.Releases, func(r storage.Release) bool {
			return r.Force && !state.Fresh
		})
	}
	out.lookAgain(plan.actions.After)
	return plan
}

// execute calls do with an executor, and adds to the outcome what the executor waits for and what it has done.
func (r *CacheNodeReconciler) execute(s scope, out *outcome, do func(*executor.Executor) error) error {
	e := executor.Executor{Client: r.Client, Live: r.Live, CacheNode: s.cacheNode}
	err := do(&e)
	out.lookAgain(e.After)
	if e.Waiting != "" {
		out.evicting = e.Waiting
	}
	for _, release := range e.Released {
		out.tell(status.Released(release))
	}
	return err
}

// checkStorage returns the problem that keeps the spec from being accepted because of its storage; nil if none does.
// For a new CacheNode, nothing is created while another volume has one of its paths. A running CacheNode goes on
// without the volumes on such nodes.
func checkStorage(o observed) error {
	follow := o.storage.actions.Follow
	switch {
	case o.storage.err != nil:
		return nil // it is reported anyway, and keeps the spec from being followed
	case follow.Invalid != nil:
		return &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: follow.Invalid.Error(), Stalled: true}
	case follow.NoNode:
		return &status.Problem{
			Reason: v1alpha1.ReasonNoNodeMatches,
			Message: "spec.placement.perNode: no node matches spec.pod.nodeSelector and spec.pod.affinity " +
				"and has only taints that are tolerated; nothing is changed until one does",
		}
	}
	if problem := volumeProblem(follow); problem != nil && o.own.statefulSet == nil {
		return problem
	}
	return nil
}

// followStorage keeps pods on the nodes that the spec allows, and creates and deletes volumes.
func (r *CacheNodeReconciler) followStorage(ctx context.Context, s scope, o observed, out *outcome) error {
	follow := o.storage.actions.Follow
	if volumeProblem(follow) != nil {
		out.lookAgain(pathAgain)
	}
	if follow.Replicas != nil {
		if err := scale(ctx, r.Client, s, *follow.Replicas); err != nil {
			return err
		}
	}
	return r.execute(s, out, func(e *executor.Executor) error { return e.Follow(ctx, follow) })
}

// volumeProblem returns what keeps volumes from being created; nil if nothing does.
func volumeProblem(follow storage.Follow) *status.Problem {
	switch {
	case len(follow.Taken) > 0:
		return &status.Problem{
			Reason: v1alpha1.ReasonPathTaken, RetryAfter: pathAgain,
			Message: status.Listed(follow.Taken) +
				": name another path, or keep the two CacheNodes on different nodes by spec.pod.nodeSelector",
		}
	case follow.TooMany != "":
		return &status.Problem{Reason: v1alpha1.ReasonTooManyVolumes, Message: follow.TooMany, RetryAfter: pathAgain}
	}
	return nil
}

// volumeWarnings says which volumes a running CacheNode goes on without. Degraded tells of too many volumes.
func volumeWarnings(follow storage.Follow) []string {
	if problem := volumeProblem(follow); problem != nil && follow.TooMany == "" {
		return []string{problem.Message}
	}
	return nil
}
