package controllers

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
)

// rolled describes how far a pass has rolled out what the spec asks for.
type rolled struct {
	// rollout is nil if the pass did not decide which pod takes which revision.
	rollout *status.Rollout
	// sharing defines which pods own keys.
	sharing fleet.Decision
	applied applied
}

// applied contains the API server's answers about the objects that were applied.
type applied struct {
	// set is the StatefulSet; nil if the pass did not apply it. version is the resourceVersion of the ConfigMap; "" if the
	// pass did not apply it.
	set     *appsv1.StatefulSet
	version string
	// remaking is true while the operator deletes the StatefulSet to recreate it.
	remaking bool
}

// roll takes the next steps that bring volumes, objects and pods to the state that the spec asks for. It stops at the
// first error, and returns the results of the steps before the error.
func (r *CacheNodeReconciler) roll(
	ctx context.Context, s scope, o observed, w wanted, certificates map[string][]byte, out *outcome,
) (done rolled, err error) {
	if err := r.followStorage(ctx, s, o, out); err != nil {
		return done, err
	}
	template, _, err := manifest.NewTemplate(
		w.target.PodInput, o.offered.template, o.podInputs(), r.Cluster.Images, w.target.Revision.ID)
	if err != nil {
		return done, err
	}
	decision := decide(s, o, w, template)
	out.lookAgain(decision.After)
	r.Agents.Hurry(client.ObjectKeyFromObject(s.cacheNode), decision.Waiting)
	r.Agents.Await(client.ObjectKeyFromObject(s.cacheNode), cmp.Or(decision.State.Candidate, decision.State.Stable))
	done.rollout = &status.Rollout{
		Done: decision.Done, Replacing: decision.Replace, Stable: decision.State.Stable, Refused: decision.State.Refused,
		Settled: isSettled(o.own.statefulSet, template),
	}
	if done.sharing, err = r.share(ctx, s, o, w, out); err != nil {
		return done, err
	}
	out.tell(status.LeavesAtOnce(s.last.oldAgents, o.leaving.oldAgents)...)
	offer, err := r.offer(o, w, decision.State, done.sharing.State)
	if err != nil {
		return done, err
	}
	done.applied, err = r.apply(ctx, o, manifest.Input{
		CacheNode: w.effective, Config: offer, Certificates: certificates, Template: template,
		Volumes: o.podVolumes(s.cacheNode.Name),
		Keep:    int32(done.sharing.Keep), Guard: done.sharing.Guard, //nolint:gosec // a number of pods
	})
	if set := done.applied.set; set != nil {
		done.rollout.Settled = isSettled(set, template)
	}
	if done.rollout.Remaking = done.applied.remaking; err != nil {
		return done, err
	}
	if err := r.assign(ctx, s, o, decision, offer.Fleet); err != nil {
		return done, err
	}
	err = r.execute(s, out, func(e *executor.Executor) error { return e.TidyClaims(ctx, o.storage.actions.Follow) })
	if err != nil {
		return done, err
	}
	if done.applied.remaking {
		return done, nil
	}
	return done, r.replace(ctx, s, o, decision, out)
}

// replace evicts the pod that is to be replaced next. The StatefulSet controller then creates that pod from the
// current pod template.
func (r *CacheNodeReconciler) replace(
	ctx context.Context, s scope, o observed, decision rollout.Decision, out *outcome,
) error {
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Name != decision.Replace || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		err := r.execute(s, out, func(e *executor.Executor) error {
			done, err := e.Evict(ctx, pod, "the pod template changed")
			if done {
				out.tell(status.Replaced(pod.Name))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
