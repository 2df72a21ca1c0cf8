package routemap

import (
	"maps"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// few is a number of candidates. If there are more, they are divided into several maps by the first segments of their
	// paths.
	few = 8
	// ownLevels is the number of times that they are divided. A request can fall through from each of
	// [routes.MaxWildcardLabels] virtual hosts to the next one, and nginx evaluates at most 100 variables within each
	// other (ngx_http_variable_depth). A virtual host takes two variables for each level, and one more.
	ownLevels = 2
	// maxLists is the maximum number of maps for the candidates of a level.
	maxLists = 32
)

// ownMaps returns the maximum number of maps that [builder.own] adds for a number of candidates.
func ownMaps(candidates int) int {
	switch {
	case candidates == 0:
		return 0
	case candidates <= few:
		return 1
	}
	return min(candidates/few+ownLevels, ownLevels*maxLists) + ownLevels + 1
}

// own adds maps that only the candidates of one virtual host use, and returns the variable of the first map. The
// candidates are in the order of precedence. next is the value for a request that matches none of them.
//
// If there are many candidates, those whose paths have many segments come first. This is correct: if two candidates
// match the path of a request, the one with more segments has the longer path.
func (m *builder) own(of []routes.Candidate, next conf.Argument) conf.Argument {
	if len(of) <= few {
		return m.list(of, next)
	}
	depths := divisions(of)
	levels, rest := make([]division, len(depths)), []routes.Candidate{}
	for i, depth := range depths {
		levels[i] = division{depth: depth, keys: newKeys(), groups: map[string][]routes.Candidate{}}
	}
	for _, c := range of {
		if !slices.ContainsFunc(levels, func(d division) bool { return d.take(c) }) {
			rest = append(rest, c)
		}
	}
	next = m.list(rest, next)
	for _, d := range slices.Backward(levels) {
		next = m.lists(d, next)
	}
	return next
}

// divisions returns up to ownLevels numbers of segments by which candidates are divided, the largest one first. These
// are the numbers at which most candidates differ.
func divisions(of []routes.Candidate) (depths []int) {
	var keys [maxDepth + 1]map[string]bool
	for _, c := range of {
		for i, prefix := range prefixes(c.Path.Value, maxDepth) {
			if keys[i+1] == nil {
				keys[i+1] = map[string]bool{}
			}
			keys[i+1][strings.ToLower(prefix)] = true
		}
	}
	for most := maxDepth; len(depths) < ownLevels && most > 0; most = depths[len(depths)-1] - 1 {
		best := 0
		for depth := most; depth > 0; depth-- {
			if n := len(keys[depth]); n > 0 && n >= len(keys[best]) {
				best = depth
			}
		}
		if best == 0 {
			break
		}
		depths = append(depths, best)
	}
	return depths
}

// division contains the candidates whose paths have a number of segments, by these segments.
type division struct {
	depth  int
	keys   *keys
	groups map[string][]routes.Candidate
}

// take adds a candidate. It returns false if the candidate does not belong to the division.
func (d division) take(c routes.Candidate) bool {
	of := prefixes(c.Path.Value, d.depth)
	if len(of) < d.depth {
		return false
	}
	key := strings.ToLower(of[d.depth-1])
	if !d.keys.take(key, key) {
		return false
	}
	d.groups[key] = append(d.groups[key], c)
	return true
}

// lists adds maps for the candidates of a division, and returns the variable of the first map. A list contains the
// candidates of one or more groups.
func (m *builder) lists(d division, next conf.Argument) conf.Argument {
	total := 0
	for _, group := range d.groups {
		total += len(group)
	}
	size := max(few, (total+maxLists-1)/maxLists)
	rows := conf.Block{conf.D("default", next)}
	var keys []string
	var list []routes.Candidate
	add := func() {
		// The groups have no request in common, so only the order within each group matters.
		value := m.list(list, next)
		for _, key := range keys {
			rows = append(rows, conf.Row(conf.Literal(key), value))
		}
		keys, list = nil, nil
	}
	for _, key := range slices.Sorted(maps.Keys(d.groups)) {
		keys, list = append(keys, key), append(list, d.groups[key]...)
		if len(list) >= size {
			add()
		}
	}
	if len(keys) > 0 {
		add()
	}
	m.depth = max(m.depth, d.depth)
	variable := m.variable()
	m.block = append(m.block, conf.Map(path(d.depth), variable, rows...))
	return variable
}

// list adds a map that compares candidates one after another, and returns its variable.
func (m *builder) list(of []routes.Candidate, next conf.Argument) conf.Argument {
	if len(of) == 0 {
		return next
	}
	source := m.source(of)
	rows := conf.Block{conf.D("default", next)}
	for _, c := range of {
		rows = append(rows, conf.Row(source.expression(c.Match), m.value(c)))
	}
	variable := m.variable()
	m.block = append(m.block, conf.Map(m.text(source), variable, rows...))
	return variable
}
