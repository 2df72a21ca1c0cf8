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

// pass is what travels through a pass over a CacheNode: what it begins with, and what it has found.
//
// A pass observes, keeps running pods alive, finds out what the spec asks for, rolls that out, and reports. Each of
// these phases gets the results of those before it, and returns its own: none writes into another's.
type pass struct {
	scope
	observed
	wanted
}

// finished is a pass with what it has done: what its report is made from.
type finished struct {
	pass
	rolled
	outcome
}

// scope is what a pass begins with. No phase changes it.
type scope struct {
	// cacheNode is the object as it was read, with the status that was written last.
	cacheNode *v1alpha1.CacheNode
	// now is the time of the pass.
	now time.Time
	// last is what the last pass over the same object has left.
	last lasting
}

// outcome collects what phases say to the end of the pass. They add to it, and none reads it.
type outcome struct {
	// after is the time until the next pass if no event comes; 0 means that none is planned.
	after time.Duration
	// evicting says which pod waits to be evicted, and why; "" for none.
	evicting string
	// done is what the pass has done that events tell.
	done []status.Event
}

// lookAgain plans another pass after a time, if none is planned before that; 0 plans none.
func (o *outcome) lookAgain(after time.Duration) {
	if after > 0 && (o.after == 0 || after < o.after) {
		o.after = after
	}
}

func (o *outcome) tell(events ...status.Event) { o.done = append(o.done, events...) }

// lasting is what one pass over an object leaves to the next: mostly the start times of states that must last before
// the operator acts on them.
type lasting struct {
	uid     types.UID
	storage storage.Since
	// offered is the resourceVersion of the ConfigMap that the last pass has left; "" if that is not known.
	offered string
	// failing is since when every pass has failed, late since when the informer cache has lagged behind in every pass;
	// zero if the last pass found neither.
	failing, late time.Time
	// broken are the disks whose failure an event told, and whose recovery no event has told yet.
	broken status.Disks
	// wantsVolumes is true if a volume that goes may make room for one of this CacheNode.
	wantsVolumes bool
	// oldAgents are the pods whose agents kept a disk from staying, as an event has told.
	oldAgents []string
	// written is the CacheNode with the status that was written last, until the informer cache shows it; nil if it does.
	written *v1alpha1.CacheNode
	// untold is what was done and no event has told yet, because the status could not be written.
	untold []status.Event
}

// lastOf returns what the last pass over the same object left.
func lastOf(since *sync.Map, cacheNode *v1alpha1.CacheNode) lasting {
	known, _ := since.Load(client.ObjectKeyFromObject(cacheNode))
	if l, ok := known.(lasting); ok && l.uid == cacheNode.UID {
		return l
	}
	return lasting{uid: cacheNode.UID}
}

// next returns what the pass leaves to the next one, but for what the report adds. err is what rolling out has ended
// with: then nobody knows which version of the ConfigMap was written last.
func (p *finished) next(err error) lasting {
	next := p.last
	if p.rollout != nil { // events have told of them
		next.oldAgents = p.leaving.oldAgents
	}
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
