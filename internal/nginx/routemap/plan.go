package routemap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Authority identifies a virtual host: a port of the pods, and a pattern of hosts.
type Authority struct {
	Port int32
	Host routes.Host
}

// String returns the authority as keys contain it. No two authorities have the same text.
func (a Authority) String() string { return fmt.Sprintf("%s:%d", a.Host, a.Port) }

// Plan decides which paths are keys of the shared maps, and counts the maps that nginx needs for all other matches.
// Each request to any host needs 16 bytes of memory for each of these maps.
//
// Routes are added in the order of the table, so an older route takes its keys before a newer one. No newer route can
// take them away, or add maps that the older one pays for. The operator makes the plan, and the table contains the
// paths that are no keys. So [Maps] uses the same keys, or fewer of them if the table has lost a listener or a route
// since. A Plan is not safe for concurrent use.
type Plan struct {
	// exact are the keys for exact paths. prefixes are the keys for the first n segments of paths, at position n.
	exact    *keys
	prefixes []*keys
	unkeyed  map[routes.Unkeyed]bool
	// lists are the numbers of conditions in the places whose candidates a map compares one after another.
	lists map[place]int
	// own is the number of candidates of each virtual host with a wildcard.
	own map[Authority]int
	// undo removes the last route, in reverse order.
	undo []func()
}

// place is the part of a virtual host that has the same first segments of paths, or the same exact path.
type place struct {
	Authority
	path    string
	isExact bool
}

// Added describes what a route adds to a plan.
type Added struct {
	// Maps is the number of maps that only this route needs.
	Maps int
	// Unkeyed are paths that become no keys, because of older routes or of other paths of the route.
	Unkeyed []routes.Unkeyed
}

// NewPlan returns a plan without routes.
func NewPlan() *Plan {
	p := &Plan{exact: newKeys(), unkeyed: map[routes.Unkeyed]bool{}, lists: map[place]int{}, own: map[Authority]int{}}
	for range maxDepth + 1 {
		p.prefixes = append(p.prefixes, newKeys())
	}
	return p
}

// Add adds a route for some virtual hosts.
func (p *Plan) Add(r routes.Route, of map[Authority]bool) (added Added) {
	p.undo = nil
	for _, a := range sorted(of) {
		for _, rule := range r.Rules {
			for _, m := range rule.Matches {
				p.add(a, m, &added)
			}
		}
	}
	return added
}

// Undo removes the route that was added last. It may be called once after each call of Add.
func (p *Plan) Undo() {
	for _, undo := range slices.Backward(p.undo) {
		undo()
	}
	p.undo = nil
}

func sorted(of map[Authority]bool) []Authority {
	return slices.SortedFunc(maps.Keys(of), func(a, b Authority) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Host, b.Host))
	})
}

// add adds a match for a virtual host.
func (p *Plan) add(a Authority, m routes.Match, added *Added) {
	at, isKey := p.place(a, m.Path, added)
	if !isKey || !isForAll(m) {
		before, isListed := p.lists[at]
		if !isListed {
			added.Maps++
			p.undo = append(p.undo, func() { delete(p.lists, at) })
		} else {
			p.undo = append(p.undo, func() { p.lists[at] = before })
		}
		p.lists[at] = before + len(m.Headers) + len(m.Query)
		added.Maps += joins(p.lists[at]) - joins(before)
	}
	if a.Host == "" || a.Host.IsWildcard() {
		before := p.own[a]
		p.own[a]++
		p.undo = append(p.undo, func() { p.own[a] = before })
		added.Maps += ownMaps(before+1) - ownMaps(before)
	}
}

// place returns the place of a path. isKey is true if a key compares the whole path.
func (p *Plan) place(a Authority, path routes.Path, added *Added) (at place, isKey bool) {
	take := func(keys *keys, text string, isExact bool) bool {
		return p.take(keys, routes.Unkeyed{PodPort: a.Port, Host: a.Host, Path: text, Exact: isExact}, added)
	}
	if path.Exact && isKeyPath(path.Value) && take(p.exact, path.Value, true) {
		return place{a, path.Value, true}, true
	}
	at = place{Authority: a}
	for n, prefix := range prefixes(path.Value, maxDepth) {
		if !take(p.prefixes[n+1], prefix, false) {
			break
		}
		at.path = prefix
	}
	return at, !path.Exact && strings.TrimSuffix(path.Value, "/") == at.path
}

// take returns true if a path of a virtual host is a key.
func (p *Plan) take(of *keys, text routes.Unkeyed, added *Added) bool {
	a := Authority{text.PodPort, text.Host}
	name := key(a.String(), text.Path)
	if isTooLong(a, text.Path) {
		return false
	}
	if of.has(name, text.Path) {
		return true
	}
	if of.take(name, text.Path) {
		p.undo = append(p.undo, func() { of.drop(name) })
		return true
	}
	if !p.unkeyed[text] {
		p.unkeyed[text] = true
		p.undo = append(p.undo, func() { delete(p.unkeyed, text) })
		added.Unkeyed = append(added.Unkeyed, text)
	}
	return false
}
