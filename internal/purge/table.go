package purge

import (
	"iter"
	"time"
)

// Never is the result of [Rule.End] for a rule that has no end yet.
var Never = time.Unix(1<<40, 0)

// margin is added to the end of a rule, because headers contain whole seconds and the clocks of nodes differ.
const margin = 2 * time.Second

// Effect defines what a purge does to an object.
type Effect int

// The effects. A stronger effect has a greater value.
const (
	Keep Effect = iota
	Expire
	Remove
)

// Verdict is the effect on an object, and the number of the rule that causes this effect.
type Verdict struct {
	Effect Effect
	Number int64
}

// Table finds the rules that match an object. It is not safe for concurrent use.
type Table struct{ hard, soft ends }

// ends contains the latest end of the rules for each key, each prefix of keys and each tag.
type ends struct{ keys, prefixes, tags texts }

// texts contains the latest end of all rules with the same text, for each text. It also contains the number of texts of
// each length. A text is a key, a prefix of keys or a tag.
type texts struct {
	ends    map[string]end
	lengths map[int]int
}

type end struct {
	at     time.Time
	number int64
	// rules is the number of rules that contain the text.
	rules int
}

// NewTable returns a table without rules.
func NewTable() *Table { return &Table{hard: newEnds(), soft: newEnds()} }

func newEnds() ends {
	none := func() texts { return texts{map[string]end{}, map[int]int{}} }
	return ends{none(), none(), none()}
}

// Add adds a rule with its patterns.
func (t *Table) Add(r Rule, p Patterns) {
	for all, text := range t.texts(r, p) {
		last := all.ends[text]
		if last.rules++; last.rules == 1 {
			all.lengths[len(text)]++
		}
		if !r.End().Before(last.at) {
			last.at, last.number = r.End(), r.Number
		}
		all.ends[text] = last
	}
}

// Remove removes a rule that was added with the same patterns. Use it only for tables in which no rule has an end.
func (t *Table) Remove(r Rule, p Patterns) {
	for all, text := range t.texts(r, p) {
		last, ok := all.ends[text]
		if last.rules--; last.rules > 0 {
			all.ends[text] = last
			continue
		} else if !ok {
			continue
		}
		delete(all.ends, text)
		if all.lengths[len(text)]--; all.lengths[len(text)] == 0 {
			delete(all.lengths, len(text))
		}
	}
}

// texts returns each pattern of a rule, together with the part of the table that stores patterns of this kind.
func (t *Table) texts(r Rule, p Patterns) iter.Seq2[texts, string] {
	e := t.hard
	if r.Soft {
		e = t.soft
	}
	return func(yield func(texts, string) bool) {
		for _, list := range []struct {
			all   texts
			texts []string
		}{{e.keys, p.Keys}, {e.prefixes, p.Prefixes}, {e.tags, p.Tags}} {
			for _, text := range list.texts {
				if !yield(list.all, text) {
					return
				}
			}
		}
	}
}

// End returns the end of a rule. The rule does not affect responses that arrived after this time.
func (r Rule) End() time.Time {
	if r.Until.IsZero() {
		return Never
	}
	return r.Until.Add(margin)
}

// Match returns the effect on an object with the given key and tags that was received at the given time.
func (t *Table) Match(key string, tags []string, received time.Time) Verdict {
	if number, ok := t.hard.match(key, tags, received); ok {
		return Verdict{Remove, number}
	}
	if number, ok := t.soft.match(key, tags, received); ok {
		return Verdict{Expire, number}
	}
	return Verdict{}
}

func (e ends) match(key string, tags []string, received time.Time) (number int64, ok bool) {
	if end, ok := e.keys.ends[key]; ok && !received.After(end.at) {
		return end.number, true
	}
	for _, tag := range tags {
		if end, ok := e.tags.ends[tag]; ok && !received.After(end.at) {
			return end.number, true
		}
	}
	for length := range e.prefixes.lengths { // there can be very many prefixes, but they have only a few different lengths
		if length > len(key) {
			continue
		}
		if end, ok := e.prefixes.ends[key[:length]]; ok && !received.After(end.at) {
			return end.number, true
		}
	}
	return 0, false
}
