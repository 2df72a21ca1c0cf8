// Package sweep removes files that a disk need not keep. These are objects that have been stale for too long, objects
// whose keys belong elsewhere now, objects of unused generations, and temporary files of killed processes.
//
// It may import index, cachefile, reload, and the packages that decide where a key belongs. A new reason to remove a
// file needs a Reason and a case in Rules.
package sweep

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
)

// Reason is the reason why a file was removed.
type Reason string

// The reasons. Cut is for files that a crash of the node has cut short, see package crash. Orphan is for temporary
// files that belong to no running process, see [Orphans]. A sweep gives the other reasons.
const (
	Keep    Reason = ""
	Stale   Reason = "stale"
	Foreign Reason = "foreign"
	Cut     Reason = "cut"
	Hidden  Reason = "hidden"
	Orphan  Reason = "orphan"
)

// Reasons returns the reasons for which files are removed.
func Reasons() []Reason { return []Reason{Stale, Foreign, Cut, Hidden, Orphan} }

// spare is how long a stale or foreign file is kept after it has become useless. It allows for clocks that differ, and
// for edits that users undo.
const spare = time.Hour

// Rules decide which files are kept. With the zero value, a file is kept until it has been stale for the time Stale
// of its [index.Entry], plus spare.
type Rules struct {
	// Stale is the longest time for which the policy lets nginx serve stale objects. If a response itself allows a longer
	// time, the longer time counts.
	Stale time.Duration
	// Handover is the time for which objects are filled from the previous pod or disk after their keys have moved.
	// IsHandover is true during a hand-over.
	Handover   time.Duration
	IsHandover bool
	// Owners decide which keys belong to which disk of the pod. Since is the time at which these owners were first seen.
	Owners Owners
	Since  time.Time
	// Generations are the generations of the disk's keys under which nginx can find objects; nil means all generations.
	Generations []int64
}

// After returns r with a value for Since. The parameter before contains the previous rules. If the owners are the same
// as in the previous rules, Since keeps its previous value. Otherwise, Since is the present time.
func (r Rules) After(before Rules, now time.Time) Rules {
	r.Since = now
	if r.Owners.id == before.Owners.id && !before.Since.IsZero() {
		r.Since = before.Since
	}
	return r
}

// Reason returns why a file must be removed from a disk; Keep if it must not. A file whose key belongs elsewhere is
// kept if it was stored after Since: the owner of the key did not answer then, and may still not answer.
func (r Rules) Reason(disk string, e index.Entry, now time.Time) Reason {
	switch {
	case r.Generations != nil && !slices.Contains(r.Generations, e.Generation):
		return Hidden
	case now.Sub(e.ValidUntil) > max(r.Stale, e.Stale)+spare:
		return Stale
	case r.IsHandover || now.Sub(r.Since) <= r.Handover+spare || !e.Stored.Before(r.Since):
		return Keep
	case !r.Owners.Have(disk, e.Key):
		return Foreign
	}
	return Keep
}
