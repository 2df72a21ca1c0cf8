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

// pathAgain is the time after which another pass looks for a free path. If a node changes or a volume of this
// operator is deleted, a pass follows at once. Volumes of others are not watched, so a change of these volumes starts
// no pass.
const pathAgain = 10 * time.Minute

// stored contains the state from which the storage of a CacheNode was planned, and the plan.
type stored struct {
	// state is nil if the facts that every plan needs could not be read. In this case, there is no plan.
	state   *storage.State
	actions storage.Actions
	// err is the reason why some facts could not be read; nil if everything that the plan needs was read. If err is set,
	// only the actions that keep pods running are carried out.
	err error
}

// planStorage reads the facts that the plan needs, and computes the plan. If the plan deletes pods by force or reduces
// their number, planStorage first reads nodes, pods, claims and volumes from the API server. If this read fails, the
// pass neither deletes pods by force nor reduces their number.
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
	if plan.err != nil { // the pass continues with the facts that were read, but deletes nothing by force
		plan.actions.Keep.Releases = slices.DeleteFunc(plan.actions.Keep.Releases, func(r storage.Release) bool {
			return r.Force && !state.Fresh
		})
	}
	out.lookAgain(plan.actions.After)
	return plan
}

// execute calls the function do with an executor. Then it adds to the outcome what the executor waits for and what
// the executor has done.
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

// checkStorage returns the storage problem that keeps the spec from being accepted; nil if there is none. For a new
// CacheNode, nothing is created while another volume uses one of its paths. A running CacheNode continues without the
// volumes whose paths are taken.
func checkStorage(o observed) error {
	follow := o.storage.actions.Follow
	switch {
	case o.storage.err != nil:
		return nil // the pass reports this error, and does not carry out the spec
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

// followStorage moves pods away from nodes that the spec does not allow, and creates and deletes volumes.
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

// volumeProblem returns the problem that keeps volumes from being created; nil if there is none.
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

// volumeWarnings returns a warning about the volumes that a running CacheNode lacks because other volumes use their
// paths. It returns no warning while volumes are missing because of the limit of the namespace: the condition Degraded
// reports those volumes.
func volumeWarnings(follow storage.Follow) []string {
	if problem := volumeProblem(follow); problem != nil && follow.TooMany == "" {
		return []string{problem.Message}
	}
	return nil
}
