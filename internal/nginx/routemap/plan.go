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

// Plan says which paths are keys of the shared maps, and counts the maps that nginx needs for all other matches. Each
// request to any host needs 16 bytes of memory for each of these maps.
//
// The operator limits this number, and the agent renders the maps. Both make the same plan, because they add the same
// routes in the same order, which is the order of the table. An older route takes its keys before a newer one. So no
// newer route can take them away, or add maps that the older one pays for. A Plan is not safe for concurrent use.
type Plan struct {
	// exact are the keys for exact paths. prefixes are the keys for the first n segments of paths, at position n.
	exact    *keys
	prefixes []*keys
	// lists are the places of candidates that a map compares one after another.
	lists map[place]bool
	// own is the number of candidates of each virtual host with a wildcard.
	own map[Authority]int
	// undo removes the last route, in reverse order.
	undo []func()
}

// place is the part of a virtual host that has the same first segments of paths, or the same exact path.
type place struct {
	authority, path string
	isExact         bool
}

// NewPlan returns a plan without routes.
func NewPlan() *Plan {
	p := &Plan{exact: newKeys(), lists: map[place]bool{}, own: map[Authority]int{}}
	for range maxDepth + 1 {
		p.prefixes = append(p.prefixes, newKeys())
	}
	return p
}

// planOf returns the plan for a table.
func planOf(t routes.Table) *Plan {
	of := map[string]map[Authority]bool{}
	for _, l := range t.Listeners {
		for _, a := range l.Attached {
			for _, h := range a.Hosts {
				if of[a.Route] == nil {
					of[a.Route] = map[Authority]bool{}
				}
				of[a.Route][Authority{l.PodPort, h}] = true
			}
		}
	}
	p := NewPlan()
	for _, r := range t.Routes {
		p.Add(r, of[r.ID()])
	}
	return p
}

// Add adds a route for some virtual hosts, and returns the number of maps that only this route needs.
func (p *Plan) Add(r routes.Route, of map[Authority]bool) (maps int) {
	p.undo = nil
	for _, a := range sorted(of) {
		for _, rule := range r.Rules {
			for _, m := range rule.Matches {
				maps += p.add(a, m)
			}
		}
	}
	return maps
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

// add adds a match for a virtual host, and returns the number of maps that it needs.
func (p *Plan) add(a Authority, m routes.Match) (maps int) {
	at, isKey := p.place(a.String(), m.Path)
	if (!isKey || !isForAll(m)) && !p.lists[at] {
		p.lists[at] = true
		p.undo = append(p.undo, func() { delete(p.lists, at) })
		maps++
	}
	if a.Host == "" || a.Host.IsWildcard() {
		before := p.own[a]
		p.own[a]++
		p.undo = append(p.undo, func() { p.own[a] = before })
		maps += ownMaps(before+1) - ownMaps(before)
	}
	return maps
}

// place returns the place of a path. isKey is true if a key compares the whole path.
func (p *Plan) place(authority string, path routes.Path) (at place, isKey bool) {
	if path.Exact && isKeyPath(path.Value) && p.take(p.exact, authority, path.Value) {
		return place{authority, path.Value, true}, true
	}
	at = place{authority: authority}
	for n, prefix := range prefixes(path.Value, maxDepth) {
		if !p.take(p.prefixes[n+1], authority, prefix) {
			break
		}
		at.path = prefix
	}
	return at, !path.Exact && strings.TrimSuffix(path.Value, "/") == at.path
}

// take returns true if the path of a virtual host is a key.
func (p *Plan) take(of *keys, authority, path string) bool {
	name := key(authority, path)
	isNew := of.texts[name] == ""
	if !of.take(name, path) {
		return false
	}
	if isNew {
		p.undo = append(p.undo, func() { of.drop(name) })
	}
	return true
}
