package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Action is what is done with a request that a rule answers: a backend gets it, with some headers changed. Pods tell
// each other the ID of the action of a request. If a pod does not know an action, the action belongs to another
// revision.
type Action struct {
	// ID is a hash of the other fields.
	ID string `json:"-"`
	// Site is the site to which the response belongs in the caches. Two requests for the same URL that different backends
	// may answer have different sites.
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
	for i, b := range of.Backends {
		a := Action{Site: r.site(of, b), Backend: b, Headers: of.Headers}
		if a.Backend.Weight = 0; b.Host != "" {
			a.ID = hash(a)
		}
		actions[i] = a
	}
	return actions
}

// RuleID returns an ID of a rule of the route for use within one configuration.
func (r Route) RuleID(rule int) string { return hash([]any{r.ID(), rule}) }

// variantMark separates the name of a route's site from what distinguishes the variants of its URLs. No name of an
// object contains it.
const variantMark = ".."

// site returns the site for the responses of a backend of a rule. If a method, headers or arguments
// decide between rules for the same URL, it depends on all matches of the rule. If the rule has several backends, it
// depends on the backend. It does not depend on the position of the rule, so a new rule before this rule changes no
// key.
func (r Route) site(of Rule, b Backend) string {
	var variant struct {
		Matches []Match
		Backend string
	}
	// The paths count too: another rule may have the same conditions for other paths.
	if slices.ContainsFunc(of.Matches, Match.hasConditions) {
		variant.Matches = of.Matches
	}
	if len(of.Backends) > 1 {
		variant.Backend = b.Name
	}
	if variant.Matches == nil && variant.Backend == "" {
		return r.Site
	}
	return r.Site + variantMark + hash(variant)
}

// hasConditions returns true if the match has conditions in addition to the path.
func (m Match) hasConditions() bool { return m.Method != "" || len(m.Headers) > 0 || len(m.Query) > 0 }

// hash returns twelve hexadecimal digits that identify a value.
func hash(of any) string {
	const digits = 12
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // strings and numbers have a form in JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digits]
}
