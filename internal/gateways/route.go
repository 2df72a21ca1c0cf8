package gateways

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// compiled is a route in the form that the table of routes contains, with the problems of the route. Each problem is
// nil if there is none.
type compiled struct {
	route routes.Route
	// refused says why no rule can be served. partial says which rules are left out. unresolved says which backends
	// cannot be used.
	refused, partial, unresolved *problem
	// isUnread is true if nobody has looked at the rules and their backends.
	isUnread bool
	// fellBack is true if route is an earlier version, because nginx refuses the last one.
	fellBack bool
}

// conditions returns the conditions of the route for a parent. refused is nil if the parent accepts the route.
func (c compiled) conditions(refused *problem, generation int64) []metav1.Condition {
	list := []metav1.Condition{unless(refused, gw.RouteConditionAccepted, gw.RouteReasonAccepted, generation)}
	if c.isUnread {
		return list
	}
	list = append(list, unless(c.unresolved, gw.RouteConditionResolvedRefs, gw.RouteReasonResolvedRefs, generation))
	if c.partial != nil && refused == nil {
		list = append(list, ifAny(c.partial, gw.RouteConditionPartiallyInvalid, "", generation))
	}
	return list
}

// compile turns an HTTPRoute into a route of the table. It leaves out rules that nginx or this version does not
// support.
func (d *decision) compile(r *gw.HTTPRoute) compiled {
	c := compiled{route: routes.Route{Namespace: r.Namespace, Name: r.Name, Site: d.site(r)}}
	var problems []string
	var unresolved []*problem
	skipped := 0
	for i, rule := range r.Spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		compiledRule, p := d.rule(at, rule)
		if p != "" {
			problems = append(problems, p)
			skipped++
			continue
		}
		backends, missing := d.backends(at, r.Namespace, rule.BackendRefs)
		compiledRule.Backends, unresolved = backends, append(unresolved, missing...)
		compiledRule.Policy = d.policyOf(httpRoute, nameOf(r), ptr.Deref(rule.Name, ""))
		compiledRule.Skipped, skipped = skipped, 0
		c.route.Rules = append(c.route.Rules, compiledRule)
	}
	c.unresolved = joined(unresolved)
	if len(problems) > 0 {
		// The specification of the Gateway API defines how the message begins.
		c.partial = problemf(gw.RouteReasonUnsupportedValue, "Dropped Rule: %s", strings.Join(problems, "; "))
		if len(c.route.Rules) == 0 {
			c.refused = problemf(gw.RouteReasonUnsupportedValue, "%s", strings.Join(problems, "; "))
		}
	}
	for i, host := range r.Spec.Hostnames {
		c.refused = firstOf(c.refused, tooDeep(fmt.Sprintf("spec.hostnames[%d]", i), host))
	}
	return c
}

// tooDeep returns a problem if a host is a wildcard with too many labels; nil otherwise.
func tooDeep(at string, host gw.Hostname) *problem {
	if routes.Host(host).IsTooDeep() {
		return problemf(gw.RouteReasonUnsupportedValue, "%s: %.60q is a wildcard with more than %d labels",
			at, host, routes.MaxWildcardLabels)
	}
	return nil
}

// site returns the name of the site of a route. The name begins with digits of the namespace's UID, so that a purge
// can name all sites of a namespace. If a namespace or a route is deleted and created again, its site gets another
// name.
func (d *decision) site(r *gw.HTTPRoute) string {
	digits := func(uid types.UID, most int) string {
		plain := strings.ReplaceAll(string(uid), "-", "")
		return plain[:min(most, len(plain))]
	}
	return digits(d.Namespaces[r.Namespace].UID, 12) + "." + digits(r.UID, 8) + "." + r.Name
}

// rule converts a rule of an HTTPRoute into a rule of the table, without its backends. problem says which part of the
// rule is not supported; "" if there is none.
func (d *decision) rule(at string, r gw.HTTPRouteRule) (rule routes.Rule, problem string) {
	switch {
	case r.Timeouts != nil:
		return rule, at + ".timeouts is not supported"
	case r.Retry != nil:
		return rule, at + ".retry is not supported"
	case r.SessionPersistence != nil:
		return rule, at + ".sessionPersistence is not supported: a cache answers for the backends"
	}
	matches := r.Matches
	if len(matches) == 0 { // the default that the API server sets
		matches = []gw.HTTPRouteMatch{{}}
	}
	for i, m := range matches {
		match, problem := match(fmt.Sprintf("%s.matches[%d]", at, i), m)
		if problem != "" {
			return rule, problem
		}
		rule.Matches = append(rule.Matches, match)
	}
	for i, f := range r.Filters {
		if problem := filter(fmt.Sprintf("%s.filters[%d]", at, i), f, &rule); problem != "" {
			return rule, problem
		}
	}
	for i, b := range r.BackendRefs {
		if len(b.Filters) > 0 {
			return rule, fmt.Sprintf("%s.backendRefs[%d].filters is not supported: use filters of the rule", at, i)
		}
	}
	return rule, ""
}

// headerName matches the names of headers for which nginx has variables.
var headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)

// match converts a match of an HTTPRoute into a match of the table. problem says which part of the match is not
// supported; "" if there is none.
func match(at string, m gw.HTTPRouteMatch) (match routes.Match, problem string) {
	match.Path = routes.Path{Value: "/"}
	if m.Path != nil {
		value := ptr.Deref(m.Path.Value, "/")
		decoded, err := url.PathUnescape(value)
		switch kind := ptr.Deref(m.Path.Type, gw.PathMatchPathPrefix); {
		case kind != gw.PathMatchExact && kind != gw.PathMatchPathPrefix:
			return match, fmt.Sprintf("%s.path.type: %s is not supported: use Exact or PathPrefix", at, kind)
		case err != nil || strings.ContainsRune(decoded, 0) || !utf8.ValidString(decoded):
			return match, fmt.Sprintf("%s.path.value: %.100q is no path in UTF-8", at, value)
		case kind == gw.PathMatchExact:
			match.Path = routes.Path{Value: decoded, Exact: true}
		case decoded != "/":
			match.Path.Value = strings.TrimSuffix(decoded, "/")
		}
	}
	match.Method = string(ptr.Deref(m.Method, ""))
	for i, h := range m.Headers {
		at := fmt.Sprintf("%s.headers[%d]", at, i)
		if kind := ptr.Deref(h.Type, gw.HeaderMatchExact); kind != gw.HeaderMatchExact {
			return match, fmt.Sprintf("%s.type: %s is not supported: use Exact", at, kind)
		}
		if !headerName.MatchString(string(h.Name)) {
			return match, fmt.Sprintf("%s.name: %.100q is not supported: use letters, digits and hyphens", at, h.Name)
		}
		same := func(p routes.Pair) bool { return strings.EqualFold(p.Name, string(h.Name)) }
		if !slices.ContainsFunc(match.Headers, same) { // if a name occurs twice, the first one counts
			match.Headers = append(match.Headers, routes.Pair{Name: strings.ToLower(string(h.Name)), Value: h.Value})
		}
	}
	for i, q := range m.QueryParams {
		at := fmt.Sprintf("%s.queryParams[%d]", at, i)
		if kind := ptr.Deref(q.Type, gw.QueryParamMatchExact); kind != gw.QueryParamMatchExact {
			return match, fmt.Sprintf("%s.type: %s is not supported: use Exact", at, kind)
		}
		if same := func(p routes.Pair) bool { return p.Name == string(q.Name) }; !slices.ContainsFunc(match.Query, same) {
			match.Query = append(match.Query, routes.Pair{Name: string(q.Name), Value: q.Value})
		}
	}
	if err := routemap.Check(match); err != nil {
		return match, at + "." + err.Error()
	}
	return match, ""
}
