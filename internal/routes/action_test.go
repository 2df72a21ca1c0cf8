package routes_test

import (
	"slices"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestCrossedConditions checks two rules in which the same conditions belong to swapped paths. The rules must have
// different sites. Otherwise a cached response of one backend would be served for the other backend.
func TestCrossedConditions(t *testing.T) {
	t.Parallel()
	match := func(path, user string) (m routes.Match) {
		if m.Path.Value = path; user != "" {
			m.Headers = []routes.Pair{{Name: "x-user", Value: user}}
		}
		return m
	}
	for name, matches := range map[string][2][]routes.Match{
		"a condition beside none": {{match("/a", ""), match("/b", "ann")}, {match("/b", ""), match("/a", "ann")}},
		"two values":              {{match("/a", "ann"), match("/b", "bob")}, {match("/b", "ann"), match("/a", "bob")}},
		"a match more":            {{match("/a", "ann")}, {match("/a", "ann"), match("/a", "")}},
	} {
		r := routes.Route{Site: "uid.shop"}
		for _, m := range matches {
			r.Rules = append(r.Rules, routes.Rule{Matches: m, Backends: []routes.Backend{{Name: "web:80", Host: "web"}}})
		}
		if a, b := r.Choices(0, "")[0].Site, r.Choices(1, "")[0].Site; a == b {
			t.Errorf("%s: both rules have the site %s", name, a)
		}
	}
}

// TestChoices checks which actions of a route have the same site, and which edits of the route change its keys.
func TestChoices(t *testing.T) {
	t.Parallel()
	backend := func(name string) routes.Backend { return routes.Backend{Name: name, Host: name, Port: 80, Weight: 1} }
	at := func(m routes.Match, backends ...routes.Backend) routes.Rule {
		m.Path.Value = "/"
		return routes.Rule{Matches: []routes.Match{m}, Backends: backends}
	}
	one := []routes.Pair{{Name: "v", Value: "1"}}
	two := []routes.Pair{{Name: "v", Value: "2"}}
	r := routes.Route{Namespace: "team", Name: "shop", Site: "uid.shop", Rules: []routes.Rule{
		at(routes.Match{}, backend("a")),                 // 0
		at(routes.Match{}, backend("b")),                 // 1
		at(routes.Match{Headers: one}, backend("a")),     // 2
		at(routes.Match{Headers: two}, backend("a")),     // 3
		at(routes.Match{Query: one}, backend("a")),       // 4
		at(routes.Match{Method: "GET"}, backend("a")),    // 5
		at(routes.Match{}, backend("a"), backend("b")),   // 6
		at(routes.Match{}, routes.Backend{Name: "none"}), // 7
		at(routes.Match{}),                               // 8
		{Redirect: &routes.Redirect{}, Matches: []routes.Match{{}}},
	}}
	first := func(rule int) routes.Action { return r.Choices(rule, "")[0] }
	if first(0).Site != r.Site || first(1).Site != r.Site {
		t.Errorf("without a condition or a choice: sites %s and %s", first(0).Site, first(1).Site)
	}
	if first(0).ID == first(1).ID {
		t.Error("two backends have one action")
	}
	sites := []string{r.Site, r.Choices(6, "")[1].Site}
	for rule := 2; rule <= 6; rule++ {
		sites = append(sites, first(rule).Site)
	}
	slices.Sort(sites)
	if n := len(slices.Compact(slices.Clone(sites))); n != len(sites) {
		t.Errorf("conditions and choices share sites: %v", sites)
	}
	if a := first(7); a.ID != "" {
		t.Errorf("a backend that cannot be used has the action %s", a.ID)
	}
	if len(r.Choices(8, ""))+len(r.Choices(9, "")) != 0 {
		t.Error("a rule without backends has actions")
	}
	before := first(2)
	r.Rules[2].Backends[0].Weight = 7
	if got := first(2); got.ID != before.ID {
		t.Error("another weight is another action")
	}
	r.Rules[2].Headers.Set = one
	if got := first(2); got.Site != before.Site || got.ID == before.ID {
		t.Error("a filter must change the action and not the site")
	}
	moved := r
	moved.Rules = slices.Concat(r.Rules[8:], r.Rules[:8])
	if got := moved.Choices(4, "")[0]; got.Site != before.Site {
		t.Errorf("rules before it change the site: %s, want %s", got.Site, before.Site)
	}
}
