package cachekey

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Groups is the maximum number of groups of neighbouring arguments that nginx removes from a query. There is a
// maximum because nginx's configuration has no loops.
const Groups = 8

// Counted returns the arguments of a query that become part of the key, as nginx computes them.
func Counted(q *v1alpha1.Query, query string) string {
	if q == nil {
		return query
	}
	for range Groups {
		query = withoutGroup(*q, query)
	}
	return strings.TrimRight(query, "&")
}

// withoutGroup removes the first group of neighbouring arguments that do not become part of the key.
func withoutGroup(q v1alpha1.Query, query string) string {
	args := strings.Split(query, "&")
	goes := func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		if q.Keep != nil {
			return !matchesAny(q.Keep, name)
		}
		return matchesAny(q.Drop, name)
	}
	begin := slices.IndexFunc(args, goes)
	if begin < 0 {
		return query
	}
	end := begin + 1
	for end < len(args) && goes(args[end]) {
		end++
	}
	rest := strings.Join(args[end:], "&")
	if begin == 0 {
		return rest
	}
	return strings.Join(args[:begin], "&") + "&" + rest
}

// matchesAny reports whether a name matches a pattern in a list.
func matchesAny(patterns []v1alpha1.NamePattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p v1alpha1.NamePattern) bool {
		if prefix, ok := strings.CutSuffix(string(p), "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return string(p) == name
	})
}
