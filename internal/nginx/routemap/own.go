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
	// maxOwnDepth is the maximum number of segments by which they are divided. A request can fall through from each of
	// [routes.MaxWildcardLabels] virtual hosts to the next one, and nginx evaluates at most 100 variables within each
	// other (ngx_http_variable_depth). A virtual host takes two variables for each segment, and one more.
	maxOwnDepth = 2
	// maxLists is the maximum number of maps for paths that are divided by the same number of segments.
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
	return min(candidates/few+maxOwnDepth, maxOwnDepth*maxLists) + maxOwnDepth + 1
}

// own adds maps that only the candidates of one virtual host use, and returns the variable of the first map. The
// candidates are in the order of precedence. next is the value for a request that matches none of them.
//
// If there are many candidates, those whose paths have two segments come first, then those with one segment. This is
// correct: if two of them match the path of a request, the one with more segments has the longer path.
func (m *builder) own(of []routes.Candidate, next conf.Argument) conf.Argument {
	if len(of) <= few {
		return m.list(of, next)
	}
	keys, bySegments := newKeys(), [maxOwnDepth + 1]map[string][]int{}
	for i, c := range of {
		n, key := 0, ""
		for _, prefix := range prefixes(c.Path.Value, maxOwnDepth) {
			lower := strings.ToLower(prefix)
			if !keys.take(lower, lower) {
				break
			}
			n, key = n+1, lower
		}
		if bySegments[n] == nil {
			bySegments[n] = map[string][]int{}
		}
		bySegments[n][key] = append(bySegments[n][key], i)
	}
	pick := func(positions []int) (picked []routes.Candidate) {
		for _, i := range slices.Sorted(slices.Values(positions)) {
			picked = append(picked, of[i])
		}
		return picked
	}
	next = m.list(pick(bySegments[0][""]), next)
	for n := 1; n <= maxOwnDepth; n++ {
		next = m.lists(n, bySegments[n], pick, next)
	}
	return next
}

// lists adds maps for candidates whose paths begin with n segments, and returns the variable of the first map. The
// positions of the candidates are grouped by these segments. A list contains the candidates of one or more groups.
func (m *builder) lists(
	n int, groups map[string][]int, pick func([]int) []routes.Candidate, next conf.Argument,
) conf.Argument {
	if len(groups) == 0 {
		return next
	}
	total := 0
	for _, positions := range groups {
		total += len(positions)
	}
	size := max(few, (total+maxLists-1)/maxLists)
	rows := conf.Block{conf.D("default", next)}
	var keys []string
	var positions []int
	add := func() {
		list := m.list(pick(positions), next)
		for _, key := range keys {
			rows = append(rows, conf.Row(conf.Literal(key), list))
		}
		keys, positions = nil, nil
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		keys, positions = append(keys, key), append(positions, groups[key]...)
		if len(positions) >= size {
			add()
		}
	}
	if len(keys) > 0 {
		add()
	}
	m.depth = max(m.depth, n)
	variable := m.variable()
	m.block = append(m.block, conf.Map(path(n), variable, rows...))
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
