package purge

import (
	"slices"
	"strings"
)

// Union merges patterns. It removes duplicates, and the keys and prefixes that another prefix already covers.
func Union(list []Patterns) (all Patterns) {
	for _, p := range list {
		all.Keys = append(all.Keys, p.Keys...)
		all.Prefixes = append(all.Prefixes, p.Prefixes...)
		all.Tags = append(all.Tags, p.Tags...)
	}
	slices.Sort(all.Prefixes)
	last, some := "", false
	all.Prefixes = slices.DeleteFunc(all.Prefixes, func(p string) bool { // a prefix comes before those it covers
		if some && strings.HasPrefix(p, last) {
			return true
		}
		last, some = p, true
		return false
	})
	slices.Sort(all.Keys)
	all.Keys = slices.DeleteFunc(slices.Compact(all.Keys), all.covers)
	slices.Sort(all.Tags)
	all.Tags = slices.Compact(all.Tags)
	return all
}

// covers returns true for a key that begins with one of the prefixes.
func (p Patterns) covers(key string) bool {
	return slices.ContainsFunc(p.Prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// Names returns true for a key that is one of the keys, or that begins with one of the prefixes. The tags of the object
// do not matter.
func (p Patterns) Names(key string) bool {
	_, found := slices.BinarySearch(p.Keys, key)
	return found || p.covers(key)
}
