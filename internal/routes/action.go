package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
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
}

// Choices returns the actions of a rule, one for each backend. A backend that cannot be used has an empty ID. A rule
// that is a redirect, or that has no backends, has no action.
func (r Route) Choices(rule int) []Action {
	of := r.Rules[rule]
	if of.Redirect != nil {
		return nil
	}
	actions := make([]Action, len(of.Backends))
	matches := of.conditions()
	for i, b := range of.Backends {
		a := Action{Site: r.site(of, matches, b), Backend: b, Headers: of.Headers}
		if a.Backend.Weight = 0; b.Host != "" {
			a.ID = hash(a)
		}
		actions[i] = a
	}
	return actions
}

// Actions returns the actions of all routes that can be used, by ID.
func (t Table) Actions() map[string]Action {
	actions := map[string]Action{}
	for _, route := range t.Routes {
		for rule := range route.Rules {
			for _, a := range route.Choices(rule) {
				if a.ID != "" {
					actions[a.ID] = a
				}
			}
		}
	}
	return actions
}

// RuleID returns an ID for a rule of the route. The ID is valid only within one configuration.
func (r Route) RuleID(rule int) string { return hash([]any{r.ID(), rule}) }

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
