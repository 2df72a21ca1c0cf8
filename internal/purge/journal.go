package purge

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Rule is a purge as an entry of the journal.
type Rule struct {
	// Number is the place of the purge in the journal.
	Number int64 `json:"number"`
	// Changed is the place of the rule's last change. It is equal to Number as long as the rule has no end. When the rule
	// gets an end, Changed becomes a later place.
	Changed int64 `json:"changed"`
	// Until is the end of the rule. The rule does not affect responses that arrived later. Zero means that the rule has no
	// end yet. In this case, a pod may still have a purged object, and another pod may copy it from there.
	Until time.Time `json:"until,omitzero"`
	// UID and Name are the UID and the name of the CachePurge.
	UID  string `json:"uid"`
	Name string `json:"name"`
	// Soft is true for rules that make objects stale. Other rules remove objects.
	Soft bool `json:"soft,omitempty"`
	Target
}

// Journal is the list of purges of a CacheNode. A place in the journal is a number, and each new place is larger than
// all earlier ones. A place is at least the Unix time in milliseconds at which it was given. So places are larger than
// all earlier ones even if a journal is lost and a new journal begins.
type Journal struct {
	// Floor is the highest place that the journal no longer contains. If a disk has not applied the journal up to this
	// place, the objects on the disk are not trusted.
	Floor int64 `json:"floor"`
	// Head is the last place in the journal.
	Head int64 `json:"head"`
	// Rules are sorted by Number.
	Rules []Rule `json:"rules,omitempty"`
}

// next returns the next place.
func (j *Journal) next(now time.Time) int64 {
	j.Head = max(j.Head+1, now.UnixMilli())
	return j.Head
}

// Add adds a purge to the journal, at the next place.
func (j *Journal) Add(now time.Time, r Rule) Rule {
	r.Number = j.next(now)
	r.Changed, r.Until = r.Number, time.Time{}
	j.Rules = append(j.Rules, r)
	return r
}

// Seal gives an end to the rule at a place. It does nothing if there is no such rule, or if the rule already has an
// end.
func (j *Journal) Seal(now time.Time, number int64, until time.Time) {
	if i, known := j.find(number); known && j.Rules[i].Until.IsZero() {
		j.Rules[i].Changed, j.Rules[i].Until = j.next(now), until
	}
}

// Since returns the rules that changed after a place.
func (j Journal) Since(place int64) []Rule {
	var rules []Rule
	for _, r := range j.Rules {
		if r.Changed > place {
			rules = append(rules, r)
		}
	}
	return rules
}

// Merge adds the changes of a later version of the journal. rules are the rules that changed after the head of j.
func (j *Journal) Merge(floor, head int64, rules []Rule) {
	for _, r := range rules {
		i, known := j.find(r.Number)
		switch {
		case !known:
			j.Rules = slices.Insert(j.Rules, i, r)
		case j.Rules[i].Changed < r.Changed:
			j.Rules[i] = r
		}
	}
	j.Head = max(j.Head, head)
	j.raise(floor)
}

// FirstOpen returns the number of the first rule without an end among the last n rules; math.MaxInt64 if all of them
// have an end.
func (j Journal) FirstOpen(n int) int64 {
	for _, r := range j.Rules[max(len(j.Rules)-n, 0):] {
		if r.Until.IsZero() {
			return r.Number
		}
	}
	return math.MaxInt64
}

// Has returns true if there is a rule with a number.
func (j Journal) Has(number int64) bool {
	_, has := j.find(number)
	return has
}

// Get returns the rule with a number.
func (j Journal) Get(number int64) (r Rule, known bool) {
	i, known := j.find(number)
	if !known {
		return Rule{}, false
	}
	return j.Rules[i], true
}

// find returns the index of the rule with a number, or the index at which such a rule would be.
func (j Journal) find(number int64) (at int, known bool) {
	return slices.BinarySearchFunc(j.Rules, number, func(r Rule, n int64) int { return cmp.Compare(r.Number, n) })
}

// raise raises the floor, and removes the rules whose last change is not after the new floor.
func (j *Journal) raise(floor int64) {
	if floor > j.Floor {
		j.Floor = floor
		j.Rules = slices.DeleteFunc(j.Rules, func(r Rule) bool { return r.Changed <= floor })
	}
}

// Unlimited is a number of bytes that no journal reaches.
const Unlimited = math.MaxInt

// Compact removes old rules from the journal. A rule is old if it ended before the time in the parameter before. The
// parameter limit is a size in bytes. If all rules together exceed the limit, Compact also removes the oldest rules
// until the rest takes at most three quarters of the limit. It keeps every rule without an end and all rules that
// changed after the first such rule. It also keeps all rules that some pod has not applied. It reports whether it
// removed any rule.
func (j *Journal) Compact(before time.Time, limit int, applied int64) bool {
	kept := min(j.Head, applied) // no rule that changed after this place is removed
	for _, r := range j.Rules {
		if r.Until.IsZero() {
			kept = min(kept, r.Number-1)
		}
	}
	size, target := j.Size(), limit
	if size > limit {
		target = limit / 4 * 3 // so that Compact is not needed again at once
	}
	floor := j.Floor
	for _, r := range j.Rules {
		if r.Changed <= kept && (r.Until.Before(before) || size > target) {
			floor = max(floor, r.Changed)
			size -= r.Size()
		}
	}
	if floor == j.Floor {
		return false
	}
	j.raise(floor)
	return true
}

// Size returns the approximate size of the journal in bytes, before compression.
func (j Journal) Size() (n int) {
	for _, r := range j.Rules {
		n += r.Size()
	}
	return n
}

// Size returns the approximate size of a rule in bytes, before compression.
func (r Rule) Size() int {
	n := 128
	for _, list := range [][]string{r.URLs, r.Prefixes, r.Hosts, r.Tags} {
		for _, text := range list {
			n += len(text) + 3
		}
	}
	return n
}

// Encode returns the journal as compressed text.
func (j Journal) Encode() ([]byte, error) { return encode(j) }

// Decode reads the text that Encode has returned.
func Decode(text []byte) (j Journal, err error) {
	if err := decode(text, &j); err != nil {
		return Journal{}, err
	}
	slices.SortFunc(j.Rules, func(a, b Rule) int { return cmp.Compare(a.Number, b.Number) })
	return j, nil
}
