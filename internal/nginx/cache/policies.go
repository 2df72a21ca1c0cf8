package cache

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// routePolicy is the ID of the policy for a request; "" if there is none.
const routePolicy = "$route_policy"

// policy is a cache policy of routes, with the site that the routes would have if all of them had this policy. suffix
// is at the end of the names of its variables. It is short, because nginx limits the length of names and of
// expressions.
type policy struct {
	id, suffix string
	site
}

// policiesOf returns the policies that actions use, sorted by ID.
func policiesOf(n node) (list []policy) {
	used := map[string]bool{}
	for _, a := range n.Routes.Actions() {
		used[a.Policy] = true
	}
	for _, a := range n.Also {
		used[a.Policy] = true
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		rules := n.Routes.Rules(id)
		if rules == nil {
			rules = n.alsoRules(id)
		}
		if rules != nil {
			suffix := fmt.Sprintf("_p%d", len(list))
			list = append(list, policy{id, suffix, routesSite(n, sites.OfRoutes(n.Spec, rules))})
		}
	}
	return list
}

// alsoRules returns the rules of a policy of another revision; nil if they are not known.
func (n node) alsoRules(policy string) *v1alpha1.CacheRules {
	if rules, ok := n.AlsoPolicies[policy]; ok {
		return &rules
	}
	return nil
}

// anyPolicy returns true if a policy of the site has a property.
func (s site) anyPolicy(has func(v1alpha1.CacheRules) bool) bool {
	return slices.ContainsFunc(s.policies, func(p policy) bool { return has(p.Cache.CacheRules) })
}

// selected is a variable whose value depends on the policy of a request. otherwise is its value for a request without a
// policy, and with a policy that has no say in it.
type selected struct {
	variable  conf.Expression
	otherwise conf.Argument
}

// byPolicy returns the maps for variables whose values depend on the policy of a request. of returns the maps for the
// site of one policy, which define all of the variables; nil if the policy has no say in them.
func (s site) byPolicy(of func(site) conf.Block, variables ...selected) (block conf.Block) {
	rows := make([]conf.Block, len(variables))
	for _, p := range s.policies {
		part := of(p.site)
		if part == nil {
			continue
		}
		block = append(block, conf.Scope(part, p.suffix)...)
		for i, v := range variables {
			rows[i] = append(rows[i], conf.Row(conf.Literal(p.id), v.variable+conf.Expression(p.suffix)))
		}
	}
	if len(block) == 0 {
		return nil
	}
	for i, v := range variables {
		values := append(conf.Block{conf.D("default", v.otherwise)}, rows[i]...)
		block = append(block, conf.Map(routePolicy, v.variable, values...))
	}
	return block
}
