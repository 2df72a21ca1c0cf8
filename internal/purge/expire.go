package purge

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// MissingPatience is the time for which a purge waits for a CacheNode that does not exist.
	MissingPatience = time.Hour
	// MissingTTL is the time after which such a purge is deleted if its own spec sets no time.
	MissingTTL = 24 * time.Hour
)

// Orphans returns the changed statuses of purges whose CacheNode does not exist, and the time until the next call.
// since is the time since which the CacheNode is known to be missing. If the CacheNode is created soon afterwards, the
// purges are carried out. This can happen when objects are applied from git. Otherwise the purges fail. After a day
// they are deleted, because nobody else would delete them.
func (s State) Orphans(since time.Time) (changes []Change, due time.Duration) {
	due = CompactInterval
	for i := range s.Purges {
		cp := &s.Purges[i]
		if IsFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		next, left := orphan(cp, since, s.Now)
		if stamp(&next, cp, s.Now); differs(cp.Status, next) {
			changes = append(changes, Change{cp, next})
		}
		if left > 0 {
			due = min(due, left)
		}
	}
	return changes, due
}

// orphan returns the status of a purge whose CacheNode has been known to be missing since the given time. left is how
// long the purge still waits. After that, an Applied purge becomes Settled, because a CacheNode that does not exist has
// no pods.
func orphan(cp *v1alpha1.CachePurge, since, now time.Time) (s v1alpha1.CachePurgeStatus, left time.Duration) {
	if cp.CreationTimestamp.After(since) {
		since = cp.CreationTimestamp.Time
	}
	s, left = *cp.Status.DeepCopy(), since.Add(MissingPatience).Sub(now)
	switch applied := s.Phase == v1alpha1.PurgeApplied; {
	case applied && left <= 0:
		s.Phase = v1alpha1.PurgeSettled
	case left <= 0:
		s.Phase, s.Message = v1alpha1.PurgeFailed, fmt.Sprintf("there was no CacheNode %s in namespace %s for an hour: "+
			"create the CacheNode, and then another CachePurge", cp.Spec.CacheNode, cp.Namespace)
	case !applied:
		s.Phase = v1alpha1.PurgePending
		s.Message = fmt.Sprintf("there is no CacheNode %s in namespace %s", cp.Spec.CacheNode, cp.Namespace)
	}
	return s, left
}

// Expired returns the finished purges that must be deleted now, and the time until the next purge must be deleted. ttl
// is the time for which a finished purge stays if its spec sets no time; 0 means that such a purge is never deleted.
func (s State) Expired(ttl time.Duration) (expired []*v1alpha1.CachePurge, due time.Duration) {
	due = CompactInterval
	for i := range s.Purges {
		cp := &s.Purges[i]
		stays := ttl
		if seconds := cp.Spec.TTLSecondsAfterFinished; seconds != nil {
			stays = time.Duration(*seconds) * time.Second
		} else if ttl == 0 {
			continue
		}
		if !IsFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		finished := cp.CreationTimestamp.Time
		if cp.Status.SettledAt != nil {
			finished = cp.Status.SettledAt.Time
		}
		if left := finished.Add(stays).Sub(s.Now); left > 0 {
			due = min(due, left)
		} else {
			expired = append(expired, cp)
		}
	}
	return expired, due
}
