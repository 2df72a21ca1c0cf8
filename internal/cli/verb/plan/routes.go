package plan

import (
	"fmt"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// routeChange describes what an edit does to a route of a Gateway.
type routeChange struct {
	// Route is the namespace and the name of the HTTPRoute, with a slash between them.
	Route string `json:"route"`
	// Action is Create, Change or Delete.
	Action string `json:"action"`
	// Lost is true if the cache no longer finds objects of the route.
	Lost bool `json:"lost,omitempty"`
}

// The values of routeChange.Action.
const (
	routeCreate = "Create"
	routeUpdate = "Change"
	routeDelete = "Delete"
)

// changesOf returns the routes that an edit changes. If isWhole is false, next contains only some of the routes, so a
// route that it does not contain stays. It is pure.
//
// The tables may come from files, which do not contain the UIDs of objects and the ports of endpoints. So the names of
// sites and the addresses of backends do not count.
func changesOf(before, next routes.Table, isWhole bool) (changes []routeChange) {
	before, next = withoutFacts(before), withoutFacts(next)
	for _, id := range next.Changed(before) {
		if before.Route(id) == nil {
			changes = append(changes, routeChange{Route: id, Action: routeCreate})
			continue
		}
		kept := objectsOf(next, id)
		changes = append(changes, routeChange{
			Route: id, Action: routeUpdate,
			Lost: slices.ContainsFunc(objectsOf(before, id), func(of string) bool { return !slices.Contains(kept, of) }) ||
				losesHosts(before, next, id),
		})
	}
	for _, r := range before.Routes {
		if isWhole && next.Route(r.ID()) == nil {
			changes = append(changes, routeChange{Route: r.ID(), Action: routeDelete, Lost: true})
		}
	}
	return changes
}

// losesHosts returns true if a route no longer accepts a host at a port of a Gateway. Both are in the keys of its
// objects.
func losesHosts(before, next routes.Table, id string) bool {
	has := func(port int32, isSecure bool, host routes.Host) bool {
		return slices.ContainsFunc(next.Listeners, func(l routes.Listener) bool {
			return l.Port == port && (l.Certificate != "") == isSecure && slices.ContainsFunc(hostsAt(l, id),
				func(h routes.Host) bool { return h.Covers(host) })
		})
	}
	for _, l := range before.Listeners {
		for _, host := range hostsAt(l, id) {
			if !has(l.Port, l.Certificate != "", host) {
				return true
			}
		}
	}
	return false
}

// hostsAt returns the hosts of a route at a listener.
func hostsAt(l routes.Listener, id string) (hosts []routes.Host) {
	for _, a := range l.Attached {
		if a.Route == id {
			hosts = append(hosts, a.Hosts...)
		}
	}
	return hosts
}

// withoutFacts returns a table in which only that differs which files contain.
func withoutFacts(t routes.Table) (plain routes.Table) {
	plain.Policies = t.Policies
	for _, r := range t.Routes {
		r.Site = r.ID()
		r.Rules = slices.Clone(r.Rules)
		for i := range r.Rules {
			r.Rules[i].Backends = slices.Clone(r.Rules[i].Backends)
			for j := range r.Rules[i].Backends {
				b := &r.Rules[i].Backends[j]
				if b.Host != "" {
					b.Host, b.Port = "host", 0
				}
			}
		}
		plain.Routes = append(plain.Routes, r)
	}
	for _, l := range t.Listeners {
		l.PodPort = 0
		plain.Listeners = append(plain.Listeners, l)
	}
	return plain
}

// objectsOf returns texts that identify the objects of a route: their sites, and the arguments that count in their
// keys.
func objectsOf(t routes.Table, id string) (objects []string) {
	for _, use := range t.Uses() {
		if t.Routes[use.Route].ID() != id {
			continue
		}
		counted := "all"
		if rules := t.Rules(use.Policy); rules != nil && rules.Query != nil {
			counted = fmt.Sprintf("without %q, only %q", slices.Sorted(slices.Values(rules.Query.Drop)),
				slices.Sorted(slices.Values(rules.Query.Keep)))
		}
		for _, a := range t.Routes[use.Route].Choices(use.Rule, use.Policy) {
			objects = append(objects, a.Site+" "+counted)
		}
	}
	return objects
}
