// Package sweep removes from a disk what it need not keep: objects that are stale for too long, and those of keys that
// are elsewhere now.
//
// It may import index, cachefile, reload, and what says where a key is. A new reason to remove a file is a Reason and a
// case of Rules.
package sweep

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
)

// Reason is why a file was removed.
type Reason string

// The reasons. Cut is for files that a crash of the node has cut, see package crash, and Orphan for temporary files
// that belong to nobody, see [Orphans]; a sweep gives the others.
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

// spare is how long a file is kept after it has become useless. It is for clocks that differ and for edits that are
// taken back.
const spare = time.Hour

// Rules say which files are kept. With the zero value, a file is kept until it is stale for as long as it says itself.
type Rules struct {
	// Stale is how long the policy allows objects to be served stale. What a response allows itself comes first if that
	// is longer.
	Stale time.Duration
	// Handover is how long keys that move are filled from where they were; IsHandover is true while that lasts.
	Handover   time.Duration
	IsHandover bool
	// Owners say which keys are on which disk of the pod, and Since is when they were first seen.
	Owners Owners
	Since  time.Time
	// Generations are those of the disk's keys under which nginx can find objects; nil for all.
	Generations []int64
}

// After returns the rules that follow on others at a moment: Since stays while the owners are the same.
func (r Rules) After(before Rules, now time.Time) Rules {
	r.Since = now
	if r.Owners.id == before.Owners.id && !before.Since.IsZero() {
		r.Since = before.Since
	}
	return r
}

// Reason returns why a file is to be removed from a disk; Keep if it is not. A file of a foreign key that was stored
// after Since is kept: the key's owner did not answer then, and may not answer yet.
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
