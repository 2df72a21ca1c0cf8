package cache

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// countedArgs are the arguments that count. countedQuery is the same with a question mark, if there are any.
	countedArgs  = "$counted_args"
	countedQuery = "$counted_query"
	// requestPath is the path as the client sent it.
	requestPath = "$request_path"
	// groups is how many groups of neighbouring arguments are removed. A map removes one, as nginx has no loop.
	groups = 8
)

// alternatives is a regular expression for names, some of which end in a star. rest is the one for the star. The names
// contain no character that has a meaning in nginx's syntax (see v1alpha1.NamePattern).
func alternatives(names []v1alpha1.NamePattern, rest string) string {
	list := make([]string, len(names))
	for i, n := range names {
		name, isPrefix := strings.CutSuffix(string(n), "*")
		list[i] = regexp.QuoteMeta(name)
		if isPrefix {
			list[i] += rest
		}
	}
	slices.Sort(list)
	return "(?:" + strings.Join(list, "|") + ")"
}

// removable is a regular expression that finds the first group of neighbouring arguments that do not count: what comes
// before the group and what comes after it are its parts. nginx has it from PCRE; Go has no lookahead.
func removable(q v1alpha1.Query) string {
	const rest = "[^&=]*"
	argument := alternatives(q.Drop, rest) + "(?:=[^&]*)?"
	if q.Keep != nil {
		argument = "(?!" + alternatives(q.Keep, rest) + "(?:=|&|$))[^&]*"
	}
	return "^((?:[^&]*&)*?)(?:" + argument + "(?:&|$))+(.*)$"
}

// queryMaps compute the arguments that count.
func (r renderer) queryMaps() conf.Block {
	q := r.Spec.Cache.Query
	if q == nil {
		return nil
	}
	var block conf.Block
	from := "$args"
	for i := range groups {
		to := fmt.Sprintf("$query_%d", i+1)
		block = append(block, conf.B("map", []conf.Argument{conf.Expression(from), conf.Expression(to)},
			conf.D("default", conf.Expression(from)),
			conf.Row(conf.Expression("~"+removable(*q)), conf.Expression("$1$2"))))
		from = to
	}
	block = append(block, conf.B("map", []conf.Argument{conf.Expression(from), conf.Expression(countedArgs)},
		conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^(.*[^&])&*$"), conf.Expression("$1"))))
	if r.keeps(v1alpha1.KeyURI) {
		return block
	}
	return append(block,
		conf.B("map", []conf.Argument{conf.Expression(countedArgs), conf.Expression(countedQuery)},
			conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Expression("?"+countedArgs))),
		conf.B("map", []conf.Argument{conf.Expression("$request_uri"), conf.Expression(requestPath)},
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^([^?]*)"), conf.Expression("$1"))))
}

// passedURI is what a request has in its first line instead of what the client sent; "" if it is the same.
func (r renderer) passedURI() conf.Expression {
	if r.Spec.Cache.Query == nil || r.keeps(v1alpha1.KeyURI) {
		return ""
	}
	return requestPath + countedQuery
}

// Counted returns the arguments of a query that count, as nginx computes them.
func Counted(q *v1alpha1.Query, query string) string {
	if q == nil {
		return query
	}
	for range groups {
		query = withoutGroup(*q, query)
	}
	return strings.TrimRight(query, "&")
}

// withoutGroup removes the first group of neighbouring arguments that do not count.
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

// matchesAny reports whether a name is in a list.
func matchesAny(patterns []v1alpha1.NamePattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p v1alpha1.NamePattern) bool {
		if prefix, ok := strings.CutSuffix(string(p), "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return string(p) == name
	})
}
