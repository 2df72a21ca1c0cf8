package controllers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// journal is the journal of a CacheNode as it is on the API server, and what its agents have done of it. Only one pass
// at a time uses it, but for agents, which the mutex guards.
type journal struct {
	uid types.UID
	// log is what is stored, once isRead is true. versions are the resourceVersions of the ConfigMaps with its segments;
	// "" for one that is not there.
	log      *purge.Log
	versions [purge.Slots]string
	isRead   bool
	// applied is the place up to which all pods obeyed it when that was last noted. appliedAt is since when they all obey
	// a rule without an end, by its number.
	applied   int64
	appliedAt map[int64]time.Time
	compacted time.Time

	// late limits the passes that agents cause by answering after one has ended.
	late *rate.Limiter

	mutex  sync.Mutex
	agents map[types.UID]*agentState
}

func newJournal(uid types.UID) *journal {
	return &journal{
		uid: uid, log: purge.NewLog(0), late: rate.NewLimiter(rate.Every(behindInterval), lateBurst),
	}
}

// commit gives new purges a place, gives those an end that have been applied for the grace period, and forgets old
// ones. All of that is one write, or few, and fails if another operator has written meanwhile.
func (r *PurgeReconciler) commit(ctx context.Context, p *purging, j *journal) error {
	next := j.log.Clone()
	if p.now.Sub(j.compacted) > compactInterval {
		next.Compact(p.now.Add(-journalAge), purge.Unlimited, j.applied)
		j.compacted = p.now
	}
	j.seal(next, p)
	if err := r.admit(ctx, p, j, next); err != nil {
		return err
	}
	versions, err := r.writeLog(ctx, p.cacheNode, next, j.versions)
	if err != nil {
		j.isRead = false // somebody else has written it, or we do not know
		return err
	}
	j.log, j.versions = next, versions
	return nil
}

// makeRoom forgets what has ended longest ago, and adds a rule. Disks that have been out of use since then lose what
// they have, so it forgets nothing if that is not enough.
func (j *journal) makeRoom(next *purge.Log, p *purging, r purge.Rule) bool {
	smaller := next.Clone()
	smaller.Compact(p.now.Add(-journalAge), smaller.Size()-1, j.applied)
	if !smaller.Add(p.now, r) {
		return false
	}
	*next = *smaller
	return true
}

// mayEnd returns true if a rule has been applied for the grace period.
func (j *journal) mayEnd(p *purging) bool {
	for number := range j.appliedAt {
		if j.isDue(p, number) {
			return true
		}
	}
	return false
}

func (j *journal) isDue(p *purging, number int64) bool {
	at, isApplied := j.appliedAt[number]
	return isApplied && !p.now.Before(at.Add(effective.PurgeGrace(p.cacheNode.Spec)))
}

// seal gives an end to the rules that have been applied for the grace period, if all agents have confirmed right now
// that they still obey them. A pod that does not could give what it has to another one.
func (j *journal) seal(next *purge.Log, p *purging) {
	if !j.isConfirmed(p) {
		return
	}
	for _, r := range j.log.Rules {
		if r.Until.IsZero() && j.isDue(p, r.Number) {
			next.Seal(p.now, r.Number, p.now)
		}
	}
}

// note notes what all pods have applied, and since when.
func (j *journal) note(p *purging, pods []purge.Pod) {
	j.applied = purge.Applied(pods, j.log.Head)
	before := j.appliedAt
	j.appliedAt = map[int64]time.Time{}
	for _, r := range j.log.Rules {
		if !r.Until.IsZero() || j.applied < r.Number {
			continue
		}
		j.appliedAt[r.Number] = p.now
		if at, known := before[r.Number]; known {
			j.appliedAt[r.Number] = at
		}
	}
}

// due returns when something is to be done next.
func (j *journal) due(p *purging) time.Duration {
	due := compactInterval
	if len(j.log.Rules) > 0 {
		due = journalInterval
	}
	if j.isBehind(p) {
		due = behindInterval
	}
	for _, at := range j.appliedAt {
		left := at.Add(effective.PurgeGrace(p.cacheNode.Spec)).Sub(p.now)
		if left <= 0 { // an agent has not confirmed it
			left = behindInterval / 4
		}
		due = min(due, left)
	}
	return due
}
