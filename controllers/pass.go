package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// pass contains the input of a pass over a CacheNode and the results of its phases so far.
//
// A pass observes, keeps pods running, determines what the spec asks for, rolls out the changes, and reports. Each
// phase receives the results of the phases before it and returns its own results. No phase writes into the results of
// another phase.
type pass struct {
	scope
	observed
	wanted
}

// finished contains a pass and what the pass has done. The report is made from a finished pass.
type finished struct {
	pass
	rolled
	outcome
}

// scope is the input of a pass. No phase changes it.
type scope struct {
	// cacheNode is the object as it was read, with the status that was written last.
	cacheNode *v1alpha1.CacheNode
	// now is the time of the pass.
	now time.Time
	// last is the state that the last pass over the same object left for this pass.
	last lasting
}

// outcome collects what the phases report to the end of the pass. Phases only add to it, and none of them reads it.
type outcome struct {
	// after is the time until the next pass if no event comes first; 0 means that no pass is planned.
	after time.Duration
	// evicting names the pod that waits to be evicted, and the reason; "" for none.
	evicting string
	// done contains the events about what the pass has done.
	done []status.Event
}

// lookAgain plans another pass after a time, unless an earlier pass is planned already. An after of 0 plans nothing.
func (o *outcome) lookAgain(after time.Duration) {
	if after > 0 && (o.after == 0 || after < o.after) {
		o.after = after
	}
}

func (o *outcome) tell(events ...status.Event) { o.done = append(o.done, events...) }

// lasting is the state that one pass over an object leaves for the next pass. Most fields are the start times of
// states that must last before the operator acts on them.
type lasting struct {
	uid     types.UID
	storage storage.Since
	// offered is the resourceVersion of the ConfigMap after the last pass; "" if it is not known.
	offered string
	// failing is the time since which every pass has failed. late is the time since which every pass has failed or has
	// found that the informer cache lags behind. Both are zero if the last pass had no such error.
	failing, late time.Time
	// broken are the disks whose failure was reported by an event, and whose recovery has yet to be reported.
	broken status.Disks
	// wantsVolumes is true if this CacheNode lacks a volume that the operator may be able to create after the deletion
	// of another volume.
	wantsVolumes bool
	// oldAgents are the pods that the last event of [status.LeavesAtOnce] named. The agents of these pods do not support
	// leaving disks.
	oldAgents []string
	// trial is the candidate that the pods are trying.
	trial trial
	// written is the CacheNode with the status that was written last. It is nil as soon as the informer cache shows that
	// status.
	written *v1alpha1.CacheNode
	// untold are the events that are still to be sent, because the status could not be written.
	untold []status.Event
}

// lastOf returns the state that the last pass over the same object left for the next pass.
func lastOf(since *sync.Map, cacheNode *v1alpha1.CacheNode) lasting {
	known, _ := since.Load(client.ObjectKeyFromObject(cacheNode))
	if l, ok := known.(lasting); ok && l.uid == cacheNode.UID {
		return l
	}
	return lasting{uid: cacheNode.UID}
}

// next returns the state that the pass leaves for the next pass, without the part that the report adds. err is the
// error of the rollout phase. After an error, the last written version of the ConfigMap is not known.
func (p *finished) next(err error) lasting {
	next := p.last
	if p.rollout != nil { // events have named these pods
		next.oldAgents = p.leaving.oldAgents
	}
	next.trial = next.trial.next(p.offered.state.Candidate, p.now)
	if p.storage.err == nil {
		next.wantsVolumes = volumeProblem(p.storage.actions.Follow) != nil
	}
	if p.storage.state != nil {
		next.storage = p.storage.actions.Since
	}
	switch {
	case err != nil:
		next.offered = ""
	case p.applied.version != "":
		next.offered = p.applied.version
	}
	return next
}
