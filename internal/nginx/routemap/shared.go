package routemap

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// All virtual hosts share the maps of this file. With maps of its own for each virtual host, nginx would take longer to
// read the configuration, and each request would need memory for all variables.
//
// A key of these maps is the ID of a virtual host with the first segments of a path. A row for n segments contains the
// value for requests whose path begins with these segments. If a longer path has a row too, the row contains the
// variable of the map for n+1 segments instead. If a request meets no row for n segments, it gets the value for n-1
// segments.
const (
	// maxDepth is the maximum number of segments in a key.
	maxDepth = 8
	// virtualHost is the ID of the virtual host that gets a request; "" if there is none.
	virtualHost = conf.Expression("$route_host")
	// cased is a mark in the keys of paths with upper-case letters. nginx ignores case when it looks up a key, so other
	// maps compare the exact text of these paths.
	cased = "!"
)

// shared collects the rows of the shared maps.
type shared struct {
	// exact contains the rows for exact paths. prefixes contains the rows for the first n segments of paths, at position
	// n. The rows for 0 segments contain only the ID of the virtual host.
	exact    *level
	prefixes []*level
}

// level contains the rows for paths with the same number of segments.
type level struct {
	*keys
	// rows are the values by key. otherwise are the values for paths that have no row at the next level, if the next level
	// has rows that begin with the key.
	rows, otherwise map[string]conf.Argument
}

func newLevel() *level {
	return &level{keys: newKeys(), rows: map[string]conf.Argument{}, otherwise: map[string]conf.Argument{}}
}

func newShared() *shared {
	s := &shared{exact: newLevel()}
	for range maxDepth + 1 {
		s.prefixes = append(s.prefixes, newLevel())
	}
	return s
}

// key returns the key for a path of a virtual host.
func key(host, path string) string {
	if lower := strings.ToLower(path); lower != path {
		return host + cased + lower
	}
	return host + path
}

// takes returns true if a path of a virtual host can be a key.
func (l *level) takes(host, path string) bool {
	return isKeyPath(path) && l.take(key(host, path), path)
}

// share adds rows for the candidates of a virtual host whose paths begin with the given path, which has depth segments.
// The candidates are in the order of precedence. next is the value for a request that matches none of the candidates.
func (m *builder) share(host, path string, depth int, of []routes.Candidate, next conf.Argument) {
	here, below := m.divide(host, path, depth, of)
	exact := map[string][]routes.Candidate{}
	here = slices.DeleteFunc(here, func(c routes.Candidate) bool {
		is := c.Path.Exact && m.shared.exact.takes(host, c.Path.Value)
		if is {
			exact[c.Path.Value] = append(exact[c.Path.Value], c)
		}
		return is
	})
	value := m.compare(here, next, func(p routes.Path) bool {
		return !p.Exact && strings.TrimSuffix(p.Value, "/") == path
	})
	for _, path := range slices.Sorted(maps.Keys(exact)) {
		m.shared.exact.rows[key(host, path)] = m.compare(exact[path], value, func(routes.Path) bool { return true })
	}
	at := m.shared.prefixes[depth]
	if at.rows[key(host, path)] = value; len(below) == 0 {
		return
	}
	at.rows[key(host, path)], at.otherwise[key(host, path)] = step(depth+1), value
	for _, longer := range slices.Sorted(maps.Keys(below)) {
		m.share(host, longer, depth+1, below[longer], value)
	}
}

// divide divides candidates by their next segment. The result below contains the candidates by the path that ends with
// this segment. The result here contains the candidates without such a segment. It also contains candidates with exact
// paths only: they need no rows for their segments.
func (m *builder) divide(host, path string, depth int, of []routes.Candidate) (
	here []routes.Candidate, below map[string][]routes.Candidate,
) {
	below = map[string][]routes.Candidate{}
	if depth == maxDepth {
		return slices.Clone(of), nil
	}
	next := func(c routes.Candidate) (longer string, ok bool) {
		s, ok := segment(c.Path.Value, depth)
		return path + "/" + s, ok
	}
	hasPrefix := map[string]bool{}
	for _, c := range of {
		longer, ok := next(c)
		if ok && (!c.Path.Exact || !isKeyPath(c.Path.Value)) && m.shared.prefixes[depth+1].takes(host, longer) {
			hasPrefix[longer] = true
		}
	}
	for _, c := range of {
		if longer, ok := next(c); ok && hasPrefix[longer] {
			below[longer] = append(below[longer], c)
		} else {
			here = append(here, c)
		}
	}
	return here, below
}

// compare returns the value for requests that candidates may answer. isMet returns true for the paths that all these
// requests match.
func (m *builder) compare(
	of []routes.Candidate, next conf.Argument, isMet func(routes.Path) bool,
) conf.Argument {
	all := slices.IndexFunc(of, func(c routes.Candidate) bool {
		return isMet(c.Path) && isForAll(c)
	})
	if all >= 0 {
		of, next = of[:all], m.value(of[all])
	}
	return m.list(of, next)
}

// step returns the variable of the map for a number of segments.
func step(segments int) conf.Expression { return numbered("step", segments) }

// otherwise returns the variable with the values for paths that have no row in the map for one segment more.
func otherwise(segments int) conf.Expression { return numbered("otherwise", segments) }

// path returns the variable with the first segments of the path of a request; "" if the path has fewer segments. The
// row that capture returns extracts them.
func path(segments int) conf.Expression { return numbered("path", segments) }

func capture(segments int) conf.Directive {
	captured := fmt.Sprintf("captured_path_%d", segments)
	return conf.Row(conf.Expression(fmt.Sprintf("~^(?<%s>(?:/[^/]*+){%d})", captured, segments)),
		conf.Expression("$"+captured))
}

func numbered(name string, segments int) conf.Expression {
	return conf.Expression(fmt.Sprintf("$route_%s_%d", name, segments))
}

// maps returns the shared maps. They define [Rule].
func (s *shared) maps() conf.Block {
	block := s.exact.maps("exact", "$uri", Rule, step(0))
	block = append(block, conf.Map(virtualHost, step(0), rowsOf(s.prefixes[0].rows, conf.Literal(""))...))
	previous := s.prefixes[0]
	source := virtualHost
	for n, l := range s.prefixes[1:] {
		if len(l.rows) == 0 {
			break // no path with a row has more segments
		}
		block = append(block, conf.Map(source, otherwise(n), rowsOf(previous.otherwise, conf.Literal(""))...))
		block = append(block, conf.Map("$uri", path(n+1), none(), capture(n+1)))
		block = append(block, l.maps(strconv.Itoa(n+1), path(n+1), step(n+1), otherwise(n))...)
		previous, source = l, numbered("key", n+1)
	}
	return block
}

// maps returns the maps that look up a path, the value of the given expression.
func (l *level) maps(name string, path, variable, other conf.Expression) conf.Block {
	key, text := conf.Expression("$route_key_"+name), conf.Expression("$route_text_"+name)
	exactly, same := conf.Expression("$route_cased_key_"+name), "same_text_"+name
	texts := conf.Block{none()}
	for _, key := range slices.Sorted(maps.Keys(l.texts)) {
		if strings.Contains(key, cased) {
			texts = append(texts, conf.Row(conf.Literal(key), conf.Literal(l.texts[key])))
		}
	}
	return conf.Block{
		conf.Map(path, key, conf.D("default", virtualHost+path), conf.Row(conf.Literal("~[A-Z]"), exactly)),
		conf.Map(virtualHost+cased+path, text, texts...),
		conf.Map(text+" "+path, exactly, none(),
			conf.Row(conf.Literal("~^(?<"+same+`>[^ ]+) \k<`+same+`>\z`), virtualHost+cased+path)),
		conf.Map(key, variable, rowsOf(l.rows, other)...),
	}
}

// rowsOf returns the rows of a map.
func rowsOf(rows map[string]conf.Argument, other conf.Argument) conf.Block {
	block := conf.Block{conf.D("default", other)}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		block = append(block, conf.Row(conf.Literal(key), rows[key]))
	}
	return block
}
