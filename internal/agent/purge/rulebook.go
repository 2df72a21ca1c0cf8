package purge

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// rulebook is the part of the journal that the pod knows, together with the patterns of stored objects that each rule
// matches. It is not safe for concurrent use.
type rulebook struct {
	journal purge.Journal
	// policies are the cache policies by which nginx may have stored the objects that it can still serve. hash
	// identifies these policies.
	policies []v1alpha1.Cache
	hash     string
	// patterns contains the patterns of each rule in the journal, one for each policy, by the rule's number.
	patterns map[int64][]purge.Patterns
	// open contains the rules without an end, and sealed contains the rules with an end.
	open, sealed *purge.Table
	log          *slog.Logger
}

func newRulebook(log *slog.Logger) rulebook {
	return rulebook{
		patterns: map[int64][]purge.Patterns{}, open: purge.NewTable(), sealed: purge.NewTable(), log: log,
	}
}

// configure sets the policies, and reports whether they differ from the previous policies.
func (b *rulebook) configure(policies []v1alpha1.Cache) (changed bool) {
	if reflect.DeepEqual(b.policies, policies) {
		return false
	}
	b.policies = policies
	text, _ := json.Marshal(policies) // plain data
	b.hash = hashOf([]string{string(text)})
	clear(b.patterns)
	for _, r := range b.journal.Rules {
		b.patterns[r.Number] = b.expand(r.Target, r.Name)
	}
	b.index()
	return true
}

// merge takes over changes of the journal, and reports whether the journal has dropped rules.
func (b *rulebook) merge(floor, head int64, rules []purge.Rule) (forgets bool) {
	before := b.journal.Floor
	for _, r := range rules {
		earlier, known := b.journal.Get(r.Number)
		if known && earlier.Changed >= r.Changed {
			continue
		}
		if !known {
			b.patterns[r.Number] = b.expand(r.Target, r.Name)
		} else if earlier.Until.IsZero() {
			b.each(earlier, b.open.Remove)
		}
		b.each(r, b.table(r).Add)
	}
	b.journal.Merge(floor, head, rules)
	if b.journal.Floor == before {
		return false
	}
	maps.DeleteFunc(b.patterns, func(number int64, _ []purge.Patterns) bool { return !b.journal.Has(number) })
	b.index()
	return true
}

// index builds the tables again from the journal.
func (b *rulebook) index() {
	b.open, b.sealed = purge.NewTable(), purge.NewTable()
	for _, r := range b.journal.Rules {
		b.each(r, b.table(r).Add)
	}
}

// table returns the table that a rule belongs to.
func (b *rulebook) table(r purge.Rule) *purge.Table {
	if r.Until.IsZero() {
		return b.open
	}
	return b.sealed
}

// each calls a function with the patterns of a rule in the journal, once for each policy.
func (b *rulebook) each(r purge.Rule, call func(purge.Rule, purge.Patterns)) {
	for _, patterns := range b.patterns[r.Number] {
		call(r, patterns)
	}
}

// task returns a rule with its patterns. If the rule is not in the journal, task computes the patterns.
func (b *rulebook) task(r purge.Rule) task {
	if patterns, known := b.patterns[r.Number]; known {
		return task{r, patterns}
	}
	return task{r, b.expand(r.Target, r.Name)}
}

// expand returns the patterns of a target under each policy. name is the name of the CachePurge, for a log line about
// a target that has no patterns under a policy. The operator has already checked the target of each CachePurge.
func (b *rulebook) expand(t purge.Target, name string) (list []purge.Patterns) {
	for _, policy := range b.policies {
		patterns, err := t.Patterns(policy)
		if err != nil {
			b.log.Warn("a purge means nothing here", "name", name, "error", err)
			continue
		}
		if len(patterns.Tags) > 0 { // an object with tags that are not indexed may have any tag
			patterns.Tags = append(slices.Clone(patterns.Tags), index.TagsCut)
		}
		list = append(list, patterns)
	}
	return list
}

// match returns the verdict of the rules on an object.
func (b *rulebook) match(e index.Entry) purge.Verdict {
	open, sealed := b.open.Match(e.Key, e.Tags, e.Received), b.sealed.Match(e.Key, e.Tags, e.Received)
	if sealed.Effect > open.Effect {
		return sealed
	}
	return open
}
