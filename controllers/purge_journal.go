package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// journal contains the journal of a CacheNode as it is stored on the API server. It also contains what a later pass
// needs from an earlier pass. Only one pass at a time uses it.
type journal struct {
	uid types.UID
	// log is the stored journal; it is valid once isRead is true. versions are the resourceVersions of the ConfigMaps
	// that store the segments of the journal. The version is "" for a ConfigMap that does not exist.
	log      *purge.Log
	versions [purge.Slots]string
	isRead   bool
	// obeyed, compacted and lost are the fields of [purge.State] with these names.
	obeyed    map[int64]time.Time
	compacted time.Time
	lost      map[types.UID]bool
}

func newJournal(uid types.UID) *journal { return &journal{uid: uid, log: purge.NewLog(0)} }

// forgetLost updates the list of purges that have lost their place. It removes a purge from the list in three cases:
// the purge was deleted, it has a new place, or the operator's cache shows no place for it.
func (j *journal) forgetLost(purges []v1alpha1.CachePurge) {
	still := map[types.UID]bool{}
	for i := range purges {
		if number := purges[i].Status.Number; number > 0 && number <= j.log.Floor {
			still[purges[i].UID] = true
		}
	}
	maps.DeleteFunc(j.lost, func(uid types.UID, _ bool) bool { return !still[uid] })
}

// commit writes the journal that results from the actions and from the purges that get a place. It needs one write or a
// few writes for all of these changes. A write fails if another operator has written the journal since it was read.
func (r *PurgeReconciler) commit(ctx context.Context, p *purging, j *journal, a purge.Actions) error {
	next := j.log.Follow(a, p.state.Now)
	if a.Compact {
		j.compacted = p.state.Now
	}
	if err := r.admit(ctx, p, next, a.Applied); err != nil {
		return err
	}
	versions, err := r.writeLog(ctx, p.cacheNode, next, j.versions)
	if err != nil {
		j.isRead = false // somebody else wrote the journal, or it is not known whether our write succeeded
		return err
	}
	j.log, j.versions, p.state.Log = next, versions, next
	return nil
}

// admit gives places to the purges without a place, the oldest first. It reads the specs of a few purges at a time,
// and reads no more when the journal is full.
func (r *PurgeReconciler) admit(ctx context.Context, p *purging, next *purge.Log, applied int64) error {
	isFull := false
	for some := range slices.Chunk(p.state.Unplaced(), specsAtOnce) {
		specs := make([]*v1alpha1.CachePurgeSpec, len(some))
		if !isFull {
			var err error
			if specs, err = r.specs(ctx, some); err != nil {
				return err
			}
		}
		for i, cp := range some {
			if !isFull && specs[i] != nil { // nil if the purge was deleted meanwhile
				isFull = !p.place(next, cp, *specs[i], applied)
			}
			if isFull {
				p.hold(cp, "the journal is full until the purges in it have settled")
			}
		}
	}
	return nil
}

// place gives a purge a place, or records why the purge can never get one. It returns false if the journal is full.
func (p *purging) place(next *purge.Log, cp *v1alpha1.CachePurge, spec v1alpha1.CachePurgeSpec, applied int64) bool {
	rule, err := purge.RuleOf(cp, spec, sites.Own(p.cacheNode.Spec).Cache)
	if err != nil {
		p.state.Held[cp.UID] = purge.Held{Message: err.Error(), IsFinal: true}
		return true
	}
	return next.Place(p.state.Now, rule, applied)
}

// hold records why a purge has no place yet.
func (p *purging) hold(cp *v1alpha1.CachePurge, message string) {
	p.state.Held[cp.UID] = purge.Held{Message: message}
}

// specsAtOnce is the number of CachePurge specs that are read at the same time. A spec has at most 256 KiB. A spec
// from the time before this limit existed has at most 2 MiB.
const specsAtOnce = 8

// specs reads the specs of CachePurges from the API server. The entry of a purge that was deleted is nil.
func (r *PurgeReconciler) specs(
	ctx context.Context, purges []*v1alpha1.CachePurge,
) ([]*v1alpha1.CachePurgeSpec, error) {
	specs := make([]*v1alpha1.CachePurgeSpec, len(purges))
	var reading errgroup.Group
	for i, cp := range purges {
		reading.Go(func() error {
			list := &v1alpha1.CachePurgeList{} // the operator has permission to list CachePurges, but not to get one
			err := r.Live.List(ctx, list, client.InNamespace(cp.Namespace), client.MatchingFields{"metadata.name": cp.Name})
			for j := range list.Items {
				if list.Items[j].UID == cp.UID {
					specs[i] = &list.Items[j].Spec
				}
			}
			return err
		})
	}
	return specs, reading.Wait()
}
