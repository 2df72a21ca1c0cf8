package routemap

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// few is a number of candidates. If there are more, they are divided by the next segment of their paths, instead of
	// being compared in one map.
	few = 8
	// maxOwnDepth is the maximum number of segments of a path by which they are divided. A request can fall through from
	// each of [routes.MaxWildcardLabels] virtual hosts to the next one, and nginx evaluates at most 100 variables within
	// each other (ngx_http_variable_depth). A virtual host takes two variables for each segment, and one more.
	maxOwnDepth = 2
)

// own adds maps that only the candidates of one virtual host use, and returns the variable of the first map. The paths
// of the candidates begin with the same segments; depth is the number of these segments. The candidates are in the
// order of precedence. next is the value for a request that matches none of the candidates.
//
// If there are many candidates, they are divided by their next segment. Candidates without a next segment come after
// all candidates with a next segment. This is correct: if both match the path of a request, the candidate without the
// segment has the shorter path.
func (m *builder) own(of []routes.Candidate, depth int, next conf.Argument) conf.Argument {
	if len(of) == 0 {
		return next
	}
	if len(of) <= few || depth == maxOwnDepth {
		return m.list(of, next)
	}
	var rest []routes.Candidate
	bySegment := map[string][]routes.Candidate{}
	keys := newKeys()
	for _, c := range of {
		s, ok := segment(c.Path.Value, depth)
		if key := "/" + strings.ToLower(s); ok && keys.take(key, key) {
			bySegment[key] = append(bySegment[key], c)
		} else {
			rest = append(rest, c)
		}
	}
	if len(rest) == len(of) {
		return m.list(of, next)
	}
	next = m.list(rest, next)
	rows := conf.Block{conf.D("default", next)}
	for _, key := range slices.Sorted(maps.Keys(bySegment)) {
		rows = append(rows, conf.Row(conf.Literal(key), m.own(bySegment[key], depth+1, next)))
	}
	m.depth = max(m.depth, depth+1)
	variable := m.variable()
	m.block = append(m.block, conf.Map("/"+segmentVariable(depth), variable, rows...))
	return variable
}

// segment returns a segment of a path. ok is false if the path has no such segment, or if the segment cannot be a part
// of a key.
func segment(path string, at int) (text string, ok bool) {
	parts := strings.Split(path, "/")[1:]
	if at >= len(parts) || !isKeyPath(parts[at]) {
		return "", false
	}
	return parts[at], parts[at] != ""
}

// Prefixes returns the paths that end with each of the segments by which a path is divided.
func Prefixes(path routes.Path) (prefixes []string) {
	end := 0
	for depth := range maxDepth {
		s, ok := segment(path.Value, depth)
		if !ok {
			break
		}
		end += len("/" + s)
		prefixes = append(prefixes, path.Value[:end])
	}
	return prefixes
}

func segmentVariable(depth int) conf.Expression {
	return conf.Expression(fmt.Sprintf("$route_segment_%d", depth))
}

// segments returns the maps that extract the segments of a request's path.
func (m *builder) segments() (block conf.Block) {
	for depth := range m.depth {
		captured := fmt.Sprintf("captured_segment_%d", depth)
		block = append(block, conf.Map("$uri", segmentVariable(depth), none(),
			conf.Row(conf.Expression(fmt.Sprintf("~^(?:/[^/]*){%d}/(?<%s>[^/]*)", depth, captured)),
				conf.Expression("$"+captured))))
	}
	return block
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
