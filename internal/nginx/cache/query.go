package cache

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// countedArgs contains the arguments that count, which means that they become part of the key. countedQuery contains
	// the same arguments after a question mark; "" if no argument counts.
	countedArgs  = "$counted_args"
	countedQuery = "$counted_query"
	// requestPath is the path as the client sent it.
	requestPath = "$request_path"
	// passedVariable contains the path as the client sent it, with countedQuery.
	passedVariable = "$passed_uri"
	// keptQuery contains the arguments that count, with all & signs that follow them.
	keptQuery = "$kept_query"
	// groups is the maximum number of groups of neighbouring arguments that nginx removes from a query.
	groups = cachekey.Groups
)

// removable returns a regular expression that finds the first groups of neighbouring arguments that do not count. Its
// captures contain the text before, between and after these groups; see leftover. The expression looks at each argument
// only once or twice, whatever a client sends. With a separate expression for each group, nginx would need 37 ms for a
// query of 7,500 arguments. The parameter argument is a regular expression in parentheses. It matches one argument that
// does not count, with the & after it.
func removable(argument string) string {
	expression := ""
	for i := groups; i > 0; i-- {
		expression = fmt.Sprintf("(?<%s>(?:[^&]*&)*?)%s+%s", queryPart(i), argument, expression)
		if i > 1 {
			expression = "(?:" + expression + ")?"
		}
	}
	return fmt.Sprintf("^%s(?<%s>.*)$", expression, queryPart(groups+1))
}

// uncounted returns the regular expression for an argument that does not count, with the & after it. It uses lookahead,
// which nginx has from PCRE. Go's regular expressions do not have it.
func uncounted(q v1alpha1.Query) string {
	const rest = "[^&=]*"
	if q.Keep != nil {
		return "(?!" + alternatives(q.Keep, rest) + "(?:=|&|$))[^&]*(?:&|$)"
	}
	return alternatives(q.Drop, rest) + "(?:=[^&]*)?(?:&|$)"
}

// queryPart returns the name of a capture of removable, counted from 1.
func queryPart(i int) string { return fmt.Sprintf("query_%d", i) }

// leftover returns all captures of removable.
func leftover() (text conf.Expression) {
	for i := range groups + 1 {
		text += conf.Expression("$" + queryPart(i+1))
	}
	return text
}

// queryMaps returns the maps that compute the arguments that count.
func (s site) queryMaps() conf.Block {
	if s.policies != nil {
		return s.byPolicy(site.queryMaps,
			selected{passedVariable, conf.Expression("$request_uri")}, selected{countedArgs, conf.Expression("$args")})
	}
	q := s.Cache.Query
	if q == nil {
		return nil
	}
	// The expression contains the names only once, because nginx accepts no argument of more than 4 KiB in its
	// configuration.
	const longest = 3 << 10
	argument := uncounted(*q)
	if len(argument) > longest {
		argument = guards.ReplaceAllString(argument, "")
	}
	define := "(?(DEFINE)(?<uncounted>" + argument + "))"
	block := conf.Block{
		conf.Map("$args", keptQuery,
			conf.D("default", conf.Expression("$args")),
			conf.Row(conf.Expression("~"+define+removable("(?&uncounted)")), leftover())),
		conf.Map(keptQuery, countedArgs,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?<counted>.*[^&])&*$"), conf.Expression("$counted"))),
	}
	if s.keeps(v1alpha1.KeyURI) {
		return block
	}
	return append(block,
		conf.Map(countedArgs, countedQuery,
			conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Expression("?"+countedArgs))),
		conf.Map("$request_uri", requestPath,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^(?<sent_path>[^?]*)"), conf.Expression("$sent_path"))),
		conf.Map("", passedVariable, conf.D("default", conf.Expression(requestPath+countedQuery))))
}

// passedURI returns the path and the arguments that nginx passes on instead of those that the client sent; "" if nginx
// passes the client's own on.
func (s site) passedURI() conf.Expression {
	hasQuery := func(r v1alpha1.CacheRules) bool { return r.Query != nil }
	if !hasQuery(s.Cache.CacheRules) && !s.anyPolicy(hasQuery) || s.keeps(v1alpha1.KeyURI) {
		return ""
	}
	return passedVariable
}
