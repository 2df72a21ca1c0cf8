package purge

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// RetryInterval is the time between two tries to reach an agent that is behind.
	RetryInterval = time.Second
	// LookInterval is the time after which agents are compared with the journal without a reason.
	LookInterval = 30 * time.Second
	// CompactInterval is the time between two looks for purges that are too old.
	CompactInterval = time.Hour
	// Age is how long a purge stays in the journal after it has ended, for pods that are down.
	Age = 24 * time.Hour
	// ConfirmedFor is how long an agent's answer counts when rules are given an end.
	ConfirmedFor = 2 * time.Second
)

// State is what is known of the purges of a CacheNode at a time.
type State struct {
	Now time.Time
	// Grace is how long all pods obey a rule before it ends.
	Grace time.Duration
	// Log is the journal; nil while it is not known.
	Log *Log
	// Pods are those that have an address.
	Pods []Pod
	// Obeyed is since when all pods obey a rule without an end, by its number, as [Actions] said last.
	Obeyed map[int64]time.Time
	// Compacted is when what is old was last removed from the journal.
	Compacted time.Time
	// Purges are all CachePurges of the CacheNode, without what they purge.
	Purges []v1alpha1.CachePurge
	// Lost has the UIDs of purges whose places were lost with a journal: they are done once more.
	Lost map[types.UID]bool
	// Held says why purges have no place in the journal, by their UIDs.
	Held map[types.UID]Held
}

// Held is why a purge has no place in the journal.
type Held struct {
	Message string
	// IsFinal is true for a purge that can get none.
	IsFinal bool
}

// Actions is what follows from a State.
type Actions struct {
	// Applied is the place up to which all pods obey the journal, and Obeyed is that of the next State.
	Applied int64
	Obeyed  map[int64]time.Time
	// Confirm is true if the agents are to be asked whether they still obey what they know: a rule may end then.
	Confirm bool
	// Ends has the numbers of the rules that end now, and Compact is true if what is old is to be removed.
	Ends    []int64
	Compact bool
	// Due is the time until the next look.
	Due time.Duration
}

// Decide returns what to do about the purges of a CacheNode whose journal is known. A rule ends after all pods have
// obeyed it for the grace period, if all agents have confirmed right now that they still do: a pod that does not could
// give what it has to another one.
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

// serving returns the pods whose nginx has begun. The others read the journal before it does.
func (s State) serving() (pods []Pod) {
	for _, p := range s.Pods {
		if p.Serves {
			pods = append(pods, p)
		}
	}
	return pods
}

// HasStale returns true if there are URLs to make stale that an agent has not got.
func (s State) HasStale() bool {
	return slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.HasStale })
}

// interval returns the time until the next look if no rule is to end.
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

// areConfirmed returns true if all pods have said right now what they have done.
func areConfirmed(pods []Pod, now time.Time) bool {
	for _, p := range pods {
		if now.Sub(p.Confirmed) > ConfirmedFor {
			return false
		}
	}
	return true
}

// Follow returns the journal after actions at a time: a copy, to be written.
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
