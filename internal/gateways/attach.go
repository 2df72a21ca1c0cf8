package gateways

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// attachRoutes attaches each route to the listeners that its parents name, and completes the table. The oldest routes
// come first, so a newer route never takes the place of an older one.
func (d *decision) attachRoutes() {
	all := slices.Clone(d.HTTPRoutes)
	slices.SortFunc(all, func(a, b gw.HTTPRoute) int { return byAge(&a, &b) })
	for i := range all {
		d.attach(&all[i])
	}
	d.result.Table.Unkeyed = d.room.unkeyed
	for i := range d.Gateways {
		for _, l := range d.listeners[nameOf(&d.Gateways[i])] {
			if l.serves() {
				d.result.Table.Listeners = append(d.result.Table.Listeners, l.entry())
			}
		}
	}
}

// attach attaches a route to the listeners that accept it.
func (d *decision) attach(r *gw.HTTPRoute) {
	parents, hosts := d.parentsOf(r)
	if len(parents) == 0 {
		return
	}
	tooMany := d.room.tooMany(d.considered[r.Namespace])
	compiled := compiled{refused: tooMany, isUnread: tooMany != nil}
	d.considered[r.Namespace]++
	if compiled.refused == nil {
		compiled = d.compile(r)
	}
	if compiled.refused == nil && len(hosts) > 0 {
		d.fallBack(&compiled, hosts)
	}
	if compiled.refused == nil && len(hosts) > 0 {
		if compiled.refused = d.room.takeRoute(compiled.route, hosts, d.rules); compiled.refused == nil {
			d.result.Table.Routes = append(d.result.Table.Routes, compiled.route)
			for l, accepted := range hosts {
				l.attached = append(l.attached, routes.Attachment{Route: compiled.route.ID(), Hosts: accepted})
			}
		}
	}
	d.attached = append(d.attached, attached{compiled, r, parents})
}

// attached is a route that names Gateways of the fleet as its parents.
type attached struct {
	compiled
	of      *gw.HTTPRoute
	parents []parent
}

// parentsOf returns the references of a route to Gateways of the fleet, and the hosts for each listener that accepts
// the route. It returns no hosts if the namespace has too many routes.
func (d *decision) parentsOf(r *gw.HTTPRoute) (parents []parent, hosts map[*listener][]routes.Host) {
	hosts = map[*listener][]routes.Host{}
	tooMany := d.room.tooMany(d.considered[r.Namespace])
	for _, ref := range r.Spec.ParentRefs {
		gateway, ok := parentOf(ref, r.Namespace)
		listeners, isOwn := d.listeners[gateway]
		switch {
		case !ok || !isOwn:
		case d.excluded[gateway] != nil:
			parents = append(parents, parent{ref: ref, refused: d.excluded[gateway]})
		case tooMany != nil:
			parents = append(parents, parent{ref: ref})
		default:
			of, refused := hostsOf(ref, gateway, listeners, r)
			serves := false
			for l, accepted := range of {
				hosts[l] = union(hosts[l], accepted)
				serves = serves || l.serves()
			}
			parents = append(parents, parent{ref, refused, serves})
		}
	}
	return parents, hosts
}

// parent is a reference of a route to a Gateway of the fleet. refused is the reason why the Gateway does not accept the
// route; nil if it does. serves is true if the pods serve one of the listeners to which the route is attached.
type parent struct {
	ref     gw.ParentReference
	refused *problem
	serves  bool
}

// hostsOf returns those of a Gateway's listeners that a reference selects. For each listener, it returns the hosts that
// both the listener and the route accept. If there is no such listener, refused is the reason.
func hostsOf(
	ref gw.ParentReference, gateway types.NamespacedName, listeners []*listener, r *gw.HTTPRoute,
) (hosts map[*listener][]routes.Host, refused *problem) {
	var all, named, accepted []string
	hosts = map[*listener][]routes.Host{}
	for _, l := range listeners {
		all = append(all, fmt.Sprintf("%s on port %d", l.Name, l.Port))
		if !l.isNamed(ref) {
			continue
		}
		named = append(named, string(l.Name))
		if l.refused != nil || len(l.kinds()) == 0 || !l.allows(r.Namespace) {
			continue
		}
		accepted = append(accepted, cmp.Or(string(l.host()), "all hosts"))
		if of := l.hosts(r.Spec.Hostnames); len(of) > 0 {
			hosts[l] = of
		}
	}
	switch {
	case len(named) == 0:
		return nil, problemf(gw.RouteReasonNoMatchingParent,
			"Gateway %s has no listener with the sectionName and the port of the parentRef: it has %s",
			gateway, strings.Join(all, ", "))
	case len(accepted) == 0:
		return nil, problemf(gw.RouteReasonNotAllowedByListeners,
			"Gateway %s: none of the listeners of the parentRef (%s) accepts HTTPRoutes of namespace %s: see their conditions, "+
				"protocol and allowedRoutes", gateway, strings.Join(named, ", "), r.Namespace)
	case len(hosts) == 0:
		return nil, problemf(gw.RouteReasonNoMatchingListenerHostname,
			"no listener of Gateway %s accepts one of the route's hostnames: they accept %s",
			gateway, strings.Join(accepted, ", "))
	}
	return hosts, nil
}

func union(hosts, more []routes.Host) []routes.Host {
	hosts = append(slices.Clone(hosts), more...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
