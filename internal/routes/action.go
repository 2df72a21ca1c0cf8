package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Action defines how a rule answers a request: which backend gets the request, and which headers are changed. Pods tell
// each other the ID of a request's action. If a pod does not know an action, the action belongs to another revision.
type Action struct {
	// ID is a hash of the other fields.
	ID string `json:"-"`
	// Site is the site to which the response belongs in the caches. If different backends may answer two requests for the
	// same URL, the two requests have different sites.
	Site string
	// Backend gets the requests.
	Backend Backend
	// Headers changes the headers of requests.
	Headers HeaderChanges
	// Policy is the ID of the policy for the responses; "" if there is none.
	Policy string `json:",omitempty"`
}

// PolicyID returns a hash that identifies the rules of a policy.
func PolicyID(of v1alpha1.CacheRules) string { return hash(of) }

// Choices returns the actions of a rule, one for each backend. A backend that cannot be used has an empty ID. A rule
// that is a redirect, or that has no backends, has no action. policy is the ID of the policy that applies to the rule;
// see [Candidate].
func (r Route) Choices(rule int, policy string) []Action {
	of := r.Rules[rule]
	if of.Redirect != nil {
		return nil
	}
	actions := make([]Action, len(of.Backends))
	matches := of.conditions()
	for i, b := range of.Backends {
		a := Action{Site: r.site(of, matches, b), Backend: b, Headers: of.Headers, Policy: policy}
		if a.Backend.Weight = 0; b.Host != "" {
			a.ID = hash(a)
		}
		actions[i] = a
	}
	return actions
}

// FilterID returns a hash of the changes of headers and of the backend.
func (a Action) FilterID() string { return hash([]any{a.Backend, a.Headers}) }

// Actions returns the actions of all routes that can be used, by ID.
func (t Table) Actions() map[string]Action {
	actions := map[string]Action{}
	for _, use := range t.Uses() {
		for _, a := range t.Routes[use.Route].Choices(use.Rule, use.Policy) {
			if a.ID != "" {
				actions[a.ID] = a
			}
		}
	}
	return actions
}

// Use is a rule together with a policy that applies to it. A route that is attached to several listeners may have
// different policies at each.
type Use struct {
	// Route and Rule are the positions of the route in the table and of the rule in the route. Policy is the ID of the
	// policy; "" if there is none.
	Route, Rule int
	Policy      string
}

// Uses returns all rules with the policies that apply to them, each once, in the order of the table. A rule of a route
// that is attached to no listener has no policy but its own.
func (t Table) Uses() (list []Use) {
	inherited := map[string][]string{}
	for _, l := range t.Listeners {
		for _, a := range l.Attached {
			if !slices.Contains(inherited[a.Route], l.Policy) {
				inherited[a.Route] = append(inherited[a.Route], l.Policy)
			}
		}
	}
	for i, route := range t.Routes {
		of := inherited[route.ID()]
		for j, rule := range route.Rules {
			if rule.Policy != "" || len(of) == 0 {
				list = append(list, Use{i, j, rule.Policy})
				continue
			}
			for _, policy := range of {
				list = append(list, Use{i, j, policy})
			}
		}
	}
	return list
}

// Rules returns the rules of a policy; nil for the ID "", or an ID that the table does not contain.
func (t Table) Rules(policy string) *v1alpha1.CacheRules {
	if rules, ok := t.Policies[policy]; ok {
		return &rules
	}
	return nil
}

// ID returns an ID for a rule with a policy. The ID is valid only within one configuration.
func (t Table) ID(of Use) string {
	return hash([]any{t.Routes[of.Route].ID(), of.Rule, of.Policy})
}

// variantMark separates the two parts of the name of a variant's site: the name of the route's own site, and the hash
// of the variant. No name of a Kubernetes object contains this text.
const variantMark = ".."

// site returns the site for the responses of a backend of a rule. If the rule has conditions on the method, headers or
// arguments, the site depends on all matches of the rule. If the rule has several backends, the site depends on the
// backend. The site does not depend on the position of the rule, so a new rule before this rule changes no key.
//
// matches is the hash of the matches; see [Rule.conditions].
func (r Route) site(of Rule, matches string, b Backend) string {
	variant := struct{ Matches, Backend string }{Matches: matches}
	if len(of.Backends) > 1 {
		variant.Backend = b.Name
	}
	if variant.Matches == "" && variant.Backend == "" {
		return r.Site
	}
	return r.Site + variantMark + hash(variant)
}

// conditions returns a hash of the matches of the rule, if a match has conditions in addition to the path; ""
// otherwise. The paths are included, because another rule may have the same conditions for other paths.
func (r Rule) conditions() string {
	if !slices.ContainsFunc(r.Matches, Match.hasConditions) {
		return ""
	}
	return hash(r.Matches)
}

// hasConditions returns true if the match has conditions in addition to the path.
func (m Match) hasConditions() bool { return m.Method != "" || len(m.Headers) > 0 || len(m.Query) > 0 }

// hash returns 32 hexadecimal digits that identify a value. A team chooses parts of the value, so the hash must be long
// enough that nobody finds another value with the same hash.
func hash(of any) string {
	const digits = 32
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // this cannot happen, because all values here can be encoded as JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digits]
}
