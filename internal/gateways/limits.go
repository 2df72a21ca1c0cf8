package gateways

import (
	"encoding/json"
	"fmt"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// maxTableBytes limits the size of all routes together, as JSON. A ConfigMap contains two revisions, each with all
	// routes, and has room for 1 MiB. Revisions are compressed there, but random text hardly gets smaller.
	maxTableBytes = 640 << 10
	// maxNamespaceBytes limits the size of the routes of one namespace, so that one team cannot use up the room of all.
	maxNamespaceBytes = maxTableBytes / 4

	// reasonTooMany is the reason of the condition Accepted for a route that exceeds the CacheNode's limits. The Gateway
	// API defines no reason for this case.
	reasonTooMany = "TooManyRoutes"
)

// room counts the attached routes, and compares them with the limits of the fleet.
type room struct {
	fleet Fleet
	total use
	of    map[string]use // by namespace
}

// use is a number of routes, with their size in bytes.
type use struct{ routes, bytes int }

func (u use) plus(bytes int) use { return use{u.routes + 1, u.bytes + bytes} }

// sizeOf returns the size of a route in bytes, as JSON.
func sizeOf(route routes.Route) int {
	text, err := json.Marshal(route)
	if err != nil {
		return maxTableBytes + 1 // not possible: the type contains only texts and numbers
	}
	return len(text)
}

// exceeds returns a problem if there is no room for one more route of a namespace; nil otherwise.
func (r *room) exceeds(namespace string, bytes int) *problem {
	own, all := r.of[namespace].plus(bytes), r.total.plus(bytes)
	has := ""
	switch {
	case own.routes > r.fleet.MaxRoutesPerNamespace:
		has = fmt.Sprintf("namespace %s already has %d older routes, the maximum of spec.gateways.maxRoutesPerNamespace",
			namespace, r.fleet.MaxRoutesPerNamespace)
	case all.routes > r.fleet.MaxRoutes:
		has = fmt.Sprintf("there are already %d older routes, the maximum of spec.gateways.maxRoutes", r.fleet.MaxRoutes)
	case own.bytes > maxNamespaceBytes:
		has = fmt.Sprintf("the routes of namespace %s would take %d bytes together, and %d is the maximum",
			namespace, own.bytes, maxNamespaceBytes)
	case all.bytes > maxTableBytes:
		has = fmt.Sprintf("all routes would take %d bytes together, and %d is the maximum", all.bytes, maxTableBytes)
	default:
		return nil
	}
	return problemf(reasonTooMany, "CacheNode %s has no room for the route: %s", r.fleet, has)
}

// add counts an attached route.
func (r *room) add(namespace string, bytes int) {
	r.of[namespace], r.total = r.of[namespace].plus(bytes), r.total.plus(bytes)
}
