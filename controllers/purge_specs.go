package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// specsAtOnce is how many specs of CachePurges are read at a time. Each has 256 KiB at most, or 2 MiB if it was created
// before that limit.
const specsAtOnce = 8

// stripPurge keeps of a CachePurge what the operator reads of all of them: without what is purged, which a pass reads
// from the API server for those that get a place, and without whatever tenants write into metadata.
func stripPurge(cp *v1alpha1.CachePurge) {
	cp.Annotations, cp.Labels, cp.OwnerReferences, cp.Finalizers = nil, nil, nil, nil
	cp.Spec = v1alpha1.CachePurgeSpec{
		CacheNode: cp.Spec.CacheNode, TTLSecondsAfterFinished: cp.Spec.TTLSecondsAfterFinished,
	}
	if isFinished(cp) {
		cp.Status.Pods, cp.Status.Message, cp.Status.Conditions = nil, "", nil
	}
}

// specs reads what CachePurges are about. One that was deleted has nil.
func (r *PurgeReconciler) specs(
	ctx context.Context, purges []*v1alpha1.CachePurge,
) ([]*v1alpha1.CachePurgeSpec, error) {
	specs := make([]*v1alpha1.CachePurgeSpec, len(purges))
	var reading errgroup.Group
	for i, cp := range purges {
		reading.Go(func() error {
			list := &v1alpha1.CachePurgeList{} // the operator may list CachePurges, and not get one
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

// admit gives places to the purges that have none, the oldest first. It reads a few specs at a time, and none once the
// journal is full.
func (r *PurgeReconciler) admit(ctx context.Context, p *purging, j *journal, next *purge.Log) error {
	purges := j.unplaced(next, p)
	isFull := false
	for some := range slices.Chunk(purges, specsAtOnce) {
		var specs []*v1alpha1.CachePurgeSpec
		if !isFull {
			var err error
			if specs, err = r.specs(ctx, some); err != nil {
				return err
			}
		}
		for i, cp := range some {
			switch {
			case isFull:
			case specs[i] == nil: // deleted meanwhile
				continue
			default:
				isFull = !j.place(next, p, cp, *specs[i])
			}
			if isFull {
				p.waiting[cp.UID] = "the journal is full until the purges in it have settled"
			}
		}
	}
	return nil
}

// unplaced returns the purges that may get a place, the oldest first.
func (j *journal) unplaced(next *purge.Log, p *purging) (purges []*v1alpha1.CachePurge) {
	known := map[string]bool{}
	for _, r := range next.Rules {
		known[r.UID] = true
	}
	for i := range p.purges {
		cp := &p.purges[i]
		if known[string(cp.UID)] || isFinished(cp) {
			continue
		}
		if cp.Status.Number > j.log.Floor {
			cp.Status.Number = 0 // its place was lost with a journal
		}
		if cp.Status.Number == 0 && cp.DeletionTimestamp.IsZero() {
			purges = append(purges, cp)
		}
	}
	slices.SortFunc(purges, func(a, b *v1alpha1.CachePurge) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return purges
}

// place gives a purge a place, or says why it can get none. It returns false if the journal is full.
func (j *journal) place(next *purge.Log, p *purging, cp *v1alpha1.CachePurge, spec v1alpha1.CachePurgeSpec) bool {
	t := target(spec)
	if err := t.Check(sites.Own(p.cacheNode.Spec).Cache); err != nil {
		p.refused[cp.UID] = "spec." + err.Error()
		return true
	}
	r := purge.Rule{UID: string(cp.UID), Name: cp.Name, Soft: spec.Mode == v1alpha1.PurgeSoft, Target: t}
	if r.Size() > purge.MaxRule { // created before the schema had a limit
		p.refused[cp.UID] = fmt.Sprintf("spec: has %d bytes of URLs and others, at most %d are possible: "+
			"create several CachePurges", r.Size(), purge.MaxRule)
		return true
	}
	return next.Add(p.now, r) || j.makeRoom(next, p, r)
}
