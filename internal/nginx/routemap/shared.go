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
// A key of these maps is the authority of a virtual host with the first segments of a path. A row for n segments
// contains the value for requests whose path begins with these segments. If a longer path has a row too, the row
// contains the variable of the map for n+1 segments instead. If a request meets no row for n segments, it gets the
// value for n-1 segments.
const (
	// maxDepth is the maximum number of segments in a key.
	maxDepth = 8
	// virtualHost is the authority of the virtual host that gets a request; "" if there is none.
	virtualHost = conf.Expression("$route_host")
	// cased is a mark in the keys of paths with upper-case letters. nginx ignores case when it looks up a key, so other
	// maps compare the exact text of these paths.
	cased = "!"
)

// shared collects the rows of the shared maps.
type shared struct {
	// exact contains the rows for exact paths. prefixes contains the rows for the first n segments of paths, at position
	// n. The rows for 0 segments contain only the authority of the virtual host.
	exact    *level
	prefixes []*level
}

// level contains the rows for paths with the same number of segments.
type level struct {
	// rows are the values by key. otherwise are the values for paths that have no row at the next level, if the next level
	// has rows that begin with the key. texts are the paths of the keys.
	rows, otherwise map[string]conf.Argument
	texts           map[string]string
}

func newLevel() *level {
	return &level{rows: map[string]conf.Argument{}, otherwise: map[string]conf.Argument{}, texts: map[string]string{}}
}

// set sets the value for a path of a virtual host.
func (l *level) set(of Authority, path string, value conf.Argument) {
	key := key(of.String(), path)
	l.rows[key], l.texts[key] = value, path
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

// isTooLong returns true if the key for a path of a virtual host is too long.
func isTooLong(host Authority, path string) bool { return len(key(host.String(), path)) > maxKeyBytes }

// share adds rows for the candidates of a virtual host whose paths begin with the given path, which has depth segments.
// The candidates are in the order of precedence. next is the value for a request that matches none of the candidates.
func (m *builder) share(host Authority, path string, depth int, of []routes.Candidate, next conf.Argument) {
	here, below := m.divide(host, depth, of)
	exact := map[string][]routes.Candidate{}
	here = slices.DeleteFunc(here, func(c routes.Candidate) bool {
		is := m.isExactKey(host, c.Path)
		if is {
			exact[c.Path.Value] = append(exact[c.Path.Value], c)
		}
		return is
	})
	value := m.compare(here, next, func(p routes.Path) bool {
		return !p.Exact && strings.TrimSuffix(p.Value, "/") == path
	})
	for _, path := range slices.Sorted(maps.Keys(exact)) {
		m.shared.exact.set(host, path, m.compare(exact[path], value, func(routes.Path) bool { return true }))
	}
	at := m.shared.prefixes[depth]
	if at.set(host, path, value); len(below) == 0 {
		return
	}
	at.set(host, path, step(depth+1))
	at.otherwise[key(host.String(), path)] = value
	for _, longer := range slices.Sorted(maps.Keys(below)) {
		m.share(host, longer, depth+1, below[longer], value)
	}
}

// divide divides candidates by their next segment. The result below contains the candidates by the path that ends with
// this segment. The result here contains the candidates without such a segment. It also contains candidates that are
// compared by their exact path only: they need no rows for their segments.
func (m *builder) divide(host Authority, depth int, of []routes.Candidate) (
	here []routes.Candidate, below map[string][]routes.Candidate,
) {
	below = map[string][]routes.Candidate{}
	if depth == maxDepth {
		return slices.Clone(of), nil
	}
	next := func(c routes.Candidate) (longer string, ok bool) {
		if of := prefixes(c.Path.Value, depth+1); len(of) > depth {
			return of[depth], m.isKey(host, of[depth], false)
		}
		return "", false
	}
	hasPrefix := map[string]bool{}
	for _, c := range of {
		if longer, ok := next(c); ok && !m.isExactKey(host, c.Path) {
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

// isExactKey returns true if a path is compared by a key for exact paths.
func (m *builder) isExactKey(host Authority, p routes.Path) bool {
	return p.Exact && isKeyPath(p.Value) && m.isKey(host, p.Value, true)
}

// isKey returns true if a path of a virtual host may be a key.
func (m *builder) isKey(host Authority, path string, isExact bool) bool {
	u := routes.Unkeyed{PodPort: host.Port, Host: host.Host, Path: path, Exact: isExact}
	return !isTooLong(host, path) && !m.unkeyed[u]
}

// compare returns the value for requests that candidates may answer. isMet returns true for the paths that all these
// requests match.
func (m *builder) compare(
	of []routes.Candidate, next conf.Argument, isMet func(routes.Path) bool,
) conf.Argument {
	all := slices.IndexFunc(of, func(c routes.Candidate) bool {
		return isMet(c.Path) && isForAll(c.Match)
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
// maps that paths returns extract them.
func path(segments int) conf.Expression { return numbered("path", segments) }

// paths returns the maps that extract up to the given number of segments.
func paths(segments int) (block conf.Block) {
	for n := range segments {
		captured := fmt.Sprintf("captured_path_%d", n+1)
		block = append(block, conf.Map("$uri", path(n+1), none(), conf.Row(
			conf.Expression(fmt.Sprintf("~^(?<%s>(?:/[^/]*+){%d})", captured, n+1)), conf.Expression("$"+captured))))
	}
	return block
}

func numbered(name string, segments int) conf.Expression {
	return conf.Expression(fmt.Sprintf("$route_%s_%d", name, segments))
}

// depth returns the maximum number of segments for which there are rows.
func (s *shared) depth() (segments int) {
	for n, l := range s.prefixes {
		if len(l.rows) > 0 {
			segments = n
		}
	}
	return segments
}

// maps returns the shared maps. They define [Rule].
func (s *shared) maps() conf.Block {
	block := s.exact.maps("exact", "$uri", Rule, step(0))
	block = append(block, conf.Map(virtualHost, step(0), rowsOf(s.prefixes[0].rows, conf.Literal(""))...))
	previous := s.prefixes[0]
	source := virtualHost
	for n, l := range s.prefixes[1 : s.depth()+1] {
		block = append(block, conf.Map(source, otherwise(n), rowsOf(previous.otherwise, conf.Literal(""))...))
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
