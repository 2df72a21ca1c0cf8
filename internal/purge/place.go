package purge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Unplaced returns the purges that still need a place in the journal, the oldest first.
func (s State) Unplaced() (purges []*v1alpha1.CachePurge) {
	rules := s.rules()
	for i := range s.Purges {
		cp := &s.Purges[i]
		if _, known := rules[string(cp.UID)]; known || IsFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		if s.place(cp) == 0 {
			purges = append(purges, cp)
		}
	}
	slices.SortFunc(purges, func(a, b *v1alpha1.CachePurge) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return purges
}

// rules returns the rules of the journal by the UIDs of their purges.
func (s State) rules() map[string]Rule {
	rules := map[string]Rule{}
	for _, r := range s.Log.Rules {
		rules[r.UID] = r
	}
	return rules
}

// place returns the place of a purge whose rule is no longer in the journal. It returns 0 if the purge had no place, or
// if its place was lost.
func (s State) place(cp *v1alpha1.CachePurge) int64 {
	if s.Lost[cp.UID] || cp.Status.Number > s.Log.Floor {
		return 0
	}
	return cp.Status.Number
}

// Unfinished returns the UIDs of the purges that are not finished and whose place is not above a floor.
func (s State) Unfinished(floor int64) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for i := range s.Purges {
		if cp := &s.Purges[i]; !IsFinished(cp) && cp.Status.Number > 0 && cp.Status.Number <= floor {
			uids[cp.UID] = true
		}
	}
	return uids
}

// TargetOf returns the target of a CachePurge.
func TargetOf(spec v1alpha1.CachePurgeSpec) Target {
	hosts := make([]string, len(spec.Hosts))
	for i, h := range spec.Hosts {
		hosts[i] = strings.ToLower(h)
	}
	return Target{URLs: spec.URLs, Prefixes: spec.Prefixes, Hosts: hosts, Tags: spec.Tags, Everything: spec.Everything}
}

// RuleOf returns the rule of a CachePurge. The rule has no place yet. An error begins with the path of the field. spec
// is the complete spec of the purge, and policy is the cache policy of the CacheNode.
func RuleOf(cp *v1alpha1.CachePurge, spec v1alpha1.CachePurgeSpec, policy v1alpha1.Cache) (Rule, error) {
	target := TargetOf(spec)
	if err := target.Check(policy); err != nil {
		return Rule{}, fmt.Errorf("spec.%w", err)
	}
	r := Rule{UID: string(cp.UID), Name: cp.Name, Soft: spec.Mode == v1alpha1.PurgeSoft, Target: target}
	if r.Size() > MaxRule { // the CachePurge was created before the schema had a limit
		return Rule{}, fmt.Errorf("spec: has %d bytes of URLs and others, at most %d are possible: "+
			"create several CachePurges", r.Size(), MaxRule)
	}
	return r, nil
}

// Place adds a rule to the journal. now is the current time. If the journal is full, Place first removes the oldest
// rules that have ended, but only if that makes enough room. As a result, a disk that is out of use loses its objects
// if it has not applied the removed rules. applied is the place up to which all pods obey the journal. If there is
// still no room, Place does nothing and returns false.
func (l *Log) Place(now time.Time, r Rule, applied int64) bool {
	if l.Add(now, r) {
		return true
	}
	smaller := l.Clone()
	smaller.Compact(now.Add(-Age), smaller.Size()-1, applied)
	if !smaller.Add(now, r) {
		return false
	}
	*l = *smaller
	return true
}
