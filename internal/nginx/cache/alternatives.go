package cache

import (
	"regexp"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// alternatives returns a regular expression that matches the given names. Some names end in a star; rest is the
// expression that replaces the star. The names contain no character with a meaning in nginx's syntax (see
// v1alpha1.NamePattern). Names with the same beginning share that part of the expression, because nginx tries one
// alternative after another for each argument that a client sends.
func alternatives(names []v1alpha1.NamePattern, rest string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	slices.Sort(list)
	return branch(slices.Compact(list), rest)
}

// branch returns the expression for sorted names. After a common beginning of several names, it returns the
// expression for their ends.
func branch(names []string, rest string) string {
	if slices.Contains(names, "*") {
		return rest
	}
	ends := names[0] == ""
	if ends {
		names = names[1:]
	}
	var branches []string
	for len(names) > 0 {
		end := slices.IndexFunc(names, func(n string) bool { return n[0] != names[0][0] })
		if end < 0 {
			end = len(names)
		}
		tails := make([]string, end)
		for i, n := range names[:end] {
			tails[i] = n[1:]
		}
		branches = append(branches, names[0][:1]+branch(tails, rest))
		names = names[end:]
	}
	if len(branches) == 0 {
		return ""
	}
	if ends {
		return "(?:" + choice(branches) + ")?"
	}
	return choice(branches)
}

// guards matches the lookaheads that choice adds. Their only use is to save time.
var guards = regexp.MustCompile(`[(][?]=\[(?:\\.|[^\\])-(?:\\.|[^\\])\][)]`)

// choice returns an expression that matches one of several sorted branches. Each branch begins with a different
// character. Lookaheads for the first character limit how many branches nginx tries.
func choice(branches []string) string {
	if len(branches) == 1 {
		return regexp.QuoteMeta(branches[0][:1]) + branches[0][1:]
	}
	half := len(branches) / 2
	guarded := func(some []string) string {
		if len(some) == 1 {
			return choice(some)
		}
		quoted := func(branch string) string { return regexp.QuoteMeta(branch[:1]) }
		return "(?=[" + quoted(some[0]) + "-" + quoted(some[len(some)-1]) + "])" + choice(some)
	}
	return "(?:" + guarded(branches[:half]) + "|" + guarded(branches[half:]) + ")"
}
