package gateways

import (
	"encoding/json"
	"fmt"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// maxTableBytes limits the size of the table, as JSON. A ConfigMap contains two revisions, each with the whole table,
	// and has room for 1 MiB. Revisions are compressed there, but random text hardly gets smaller.
	maxTableBytes = 640 << 10
	// maxRows limits the number of rows of maps that nginx's configuration contains for the table. Each match of a route
	// is a row for each host of each listener to which the route is attached. nginx compiles a regular expression for
	// each row, which takes about 2 KiB of memory.
	maxRows = 32 << 10
	// maxBackends limits the number of backends, which count once for each route. nginx has two shared memory zones for
	// each backend, and the agent looks up its name.
	maxBackends = 4 << 10
	// shares is the number of namespaces that can use up all room together. So one team cannot use up the room of all.
	shares = 4

	// reasonNoRoom is the reason of the condition Accepted for a route or a listener that exceeds the limits of the
	// CacheNode. The Gateway API defines no reason for this case.
	reasonNoRoom = "NoRoom"
)

// room compares what the table contains with the limits of the fleet.
type room struct {
	fleet Fleet
	total use
	of    map[string]use // by namespace
}

// use is a number of routes, with the size of their entries in bytes, and the numbers of their rows and backends.
type use struct{ routes, bytes, rows, backends int }

func (u use) plus(more use) use {
	return use{u.routes + more.routes, u.bytes + more.bytes, u.rows + more.rows, u.backends + more.backends}
}

// sizeOf returns the size in bytes of an entry of the table, with a comma after it.
func sizeOf(entry any) int {
	text, err := json.Marshal(entry)
	if err != nil {
		return maxTableBytes + 1 // not possible: the types contain only texts and numbers
	}
	const comma = 1
	if l, ok := entry.(routes.Listener); ok && l.Attached == nil {
		return len(text) + len(`,"attached":[]`) + comma
	}
	return len(text) + comma
}

// useOf returns what a route needs if it is attached to the given listeners.
func useOf(route routes.Route, hosts map[*listener][]routes.Host) use {
	matches, backends := 0, map[string]bool{}
	for _, rule := range route.Rules {
		matches += len(rule.Matches)
		for _, b := range rule.Backends {
			backends[b.Name] = true
		}
	}
	u := use{routes: 1, bytes: sizeOf(route), backends: len(backends)}
	for _, of := range hosts {
		u.bytes += sizeOf(routes.Attachment{Route: route.ID(), Hosts: of})
		u.rows += len(of) * max(matches, 1)
	}
	return u
}

// take uses room for a namespace. If there is not enough, it returns a problem and uses nothing.
func (r *room) take(namespace string, more use) *problem {
	own, all := r.of[namespace].plus(more), r.total.plus(more)
	if has := r.exceeds(namespace, own, all); has != "" {
		return problemf(reasonNoRoom, "CacheNode %s has no room: %s", r.fleet, has)
	}
	r.of[namespace], r.total = own, all
	return nil
}

// exceeds says which limit the use of a namespace, or of all namespaces, exceeds; "" if there is none.
func (r *room) exceeds(namespace string, own, all use) string {
	switch {
	case own.routes > r.fleet.MaxRoutesPerNamespace:
		return fmt.Sprintf("namespace %s already has %d older routes, the maximum of spec.gateways.maxRoutesPerNamespace",
			namespace, r.fleet.MaxRoutesPerNamespace)
	case all.routes > r.fleet.MaxRoutes:
		return fmt.Sprintf("there are already %d older routes, the maximum of spec.gateways.maxRoutes", r.fleet.MaxRoutes)
	}
	for _, limit := range []struct {
		what           string
		own, all, most int
	}{
		{"bytes of routes and listeners", own.bytes, all.bytes, maxTableBytes - len(`{"listeners":[],"routes":[]}`)},
		{"matches, counted for each host of each listener,", own.rows, all.rows, maxRows},
		{"backends, counted for each route,", own.backends, all.backends, maxBackends},
	} {
		if most := limit.most / shares; limit.own > most {
			return fmt.Sprintf("namespace %s would have %d %s and the maximum is %d", namespace, limit.own, limit.what, most)
		}
		if limit.all > limit.most {
			return fmt.Sprintf("all namespaces together would have %d %s and the maximum is %d",
				limit.all, limit.what, limit.most)
		}
	}
	return ""
}
