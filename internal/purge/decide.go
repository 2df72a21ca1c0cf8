package purge

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// RetryInterval is the time between two requests to an agent that has not yet applied all purges.
	RetryInterval = time.Second
	// LookInterval is the time after which the operator compares the progress of the agents with the journal, even if
	// nothing has happened.
	LookInterval = 30 * time.Second
	// CompactInterval is the time between two searches for old purges that can be removed from the journal.
	CompactInterval = time.Hour
	// Age is the time for which a purge stays in the journal after its end. Within this time, a pod that was down can
	// still apply the purge.
	Age = 24 * time.Hour
	// ConfirmedFor is the maximum age that an agent's last report may have when a rule ends. All agents must have reported
	// within this time.
	ConfirmedFor = 2 * time.Second
)

// State contains what is known about the purges of a CacheNode at the time Now.
type State struct {
	Now time.Time
	// Grace is the time for which all pods must obey a rule before the rule can end.
	Grace time.Duration
	// Log is the journal; nil while it is not known.
	Log *Log
	// Pods are the pods that have an address.
	Pods []Pod
	// Obeyed contains the time since which all pods obey a rule, by the number of the rule. It lists only rules without an
	// end. Its value comes from the last [Actions].
	Obeyed map[int64]time.Time
	// Compacted is the time at which old purges were last removed from the journal.
	Compacted time.Time
	// Purges are all CachePurges of the CacheNode, without their targets.
	Purges []v1alpha1.CachePurge
	// Lost contains the UIDs of purges whose places were lost with an earlier journal. These purges are carried out again.
	Lost map[types.UID]bool
	// Held says why purges have no place in the journal, by the UIDs of the purges.
	Held map[types.UID]Held
}

// Held is the reason why a purge has no place in the journal.
type Held struct {
	Message string
	// IsFinal is true for a purge that can never get a place.
	IsFinal bool
}

// Actions contains the decisions that follow from a State.
type Actions struct {
	// Applied is the place up to which all pods obey the journal. Obeyed is the value of the field Obeyed for the next
	// State.
	Applied int64
	Obeyed  map[int64]time.Time
	// Confirm is true if the operator must ask the agents whether they still obey the journal. If all confirm this, a rule
	// can end.
	Confirm bool
	// Ends contains the numbers of the rules that end now. Compact is true if old purges must be removed from the
	// journal.
	Ends    []int64
	Compact bool
	// Due is the time until the next decision.
	Due time.Duration
}

// Decide returns the next actions for the purges of a CacheNode whose journal is known. A rule ends when all pods have
// obeyed it for the grace period and all agents have just confirmed that they still obey it. If a rule ended earlier, a
// pod that does not obey it could give a purged object to another pod.
func Decide(s State) Actions {
	serving := s.serving()
	a := Actions{
		Applied: Applied(serving, s.Log.Head), Obeyed: map[int64]time.Time{},
		Compact: s.Now.Sub(s.Compacted) > CompactInterval, Due: s.interval(),
	}
	isConfirmed := areConfirmed(serving, s.Now)
	for _, r := range s.Log.Rules {
		if !r.Until.IsZero() || a.Applied < r.Number {
			continue
		}
		since, known := s.Obeyed[r.Number]
		if !known {
			since = s.Now
		}
		a.Obeyed[r.Number] = since
		left := since.Add(s.Grace).Sub(s.Now)
		if left <= 0 {
			a.Confirm = true
			if isConfirmed {
				a.Ends = append(a.Ends, r.Number)
			}
			left = RetryInterval / 4
		}
		a.Due = min(a.Due, left)
	}
	return a
}

// serving returns the pods whose nginx has started. The other pods read the journal before nginx starts.
func (s State) serving() (pods []Pod) {
	for _, p := range s.Pods {
		if p.Serves {
			pods = append(pods, p)
		}
	}
	return pods
}

// HasStale returns true if an agent has not received all URLs that it must make stale.
func (s State) HasStale() bool {
	return slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.HasStale })
}

// interval returns the time until the next decision if no rule is about to end.
func (s State) interval() time.Duration {
	for _, p := range s.Pods {
		if p.IsUnknown || p.Problem != "" || p.HasStale || p.Done.Applied < s.Log.Head {
			return RetryInterval
		}
	}
	if len(s.Log.Rules) > 0 {
		return LookInterval
	}
	return CompactInterval
}

// areConfirmed returns true if the agents of all pods have just reported their progress.
func areConfirmed(pods []Pod, now time.Time) bool {
	for _, p := range pods {
		if now.Sub(p.Confirmed) > ConfirmedFor {
			return false
		}
	}
	return true
}

// Follow returns a copy of the journal in which the actions are carried out at the time now. The caller must write
// this copy.
func (l *Log) Follow(a Actions, now time.Time) *Log {
	next := l.Clone()
	if a.Compact {
		next.Compact(now.Add(-Age), Unlimited, a.Applied)
	}
	for _, number := range a.Ends {
		next.Seal(now, number, now)
	}
	return next
}
