package gateways

import (
	"maps"
	"slices"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// attachRoutes attaches each route to the listeners that its parents name, and completes the table. The oldest routes
// come first, so a newer route never takes the place of an older one.
func (d *decision) attachRoutes() {
	all := slices.Clone(d.HTTPRoutes)
	slices.SortFunc(all, func(a, b gw.HTTPRoute) int { return byAge(&a, &b) })
	d.room = room{fleet: d.Fleet, of: map[string]use{}}
	for i := range all {
		d.attach(&all[i])
	}
	for _, l := range d.listeners {
		if l.serves() {
			d.result.Table.Listeners = append(d.result.Table.Listeners, d.tableListener(l))
		}
	}
}

// attach attaches a route to the listeners that accept it.
func (d *decision) attach(r *gw.HTTPRoute) {
	compiled := d.compile(r)
	bytes := sizeOf(compiled.route)
	tooMany := d.room.exceeds(r.Namespace, bytes)
	position, attached := len(d.result.Table.Routes), false
	var parents []gw.RouteParentStatus
	for _, ref := range r.Spec.ParentRefs {
		g := d.gatewayOf(ref, r.Namespace)
		if g == nil {
			continue
		}
		hosts, refused := d.hostsOf(ref, g, r)
		refused = firstOf(refused, tooMany, compiled.refused)
		if refused == nil {
			attached = true
			for l, of := range hosts {
				l.attached[position] = union(l.attached[position], of)
			}
		}
		parents = append(parents, gw.RouteParentStatus{
			ParentRef: ref, ControllerName: Controller, Conditions: compiled.conditions(refused, r.Generation),
		})
	}
	if len(parents) > 0 {
		d.result.Parents[nameOf(r)] = parents
	}
	if attached {
		d.result.Table.Routes = append(d.result.Table.Routes, compiled.route)
		d.room.add(r.Namespace, bytes)
	}
}

// gatewayOf returns the fleet's Gateway that a reference names; nil if it names another parent.
func (d *decision) gatewayOf(ref gw.ParentReference, namespace string) *gw.Gateway {
	name, ok := parentOf(ref, namespace)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(d.Gateways, func(g gw.Gateway) bool { return nameOf(&g) == name })
	if i < 0 {
		return nil
	}
	return &d.Gateways[i]
}

// hostsOf returns the listeners that a reference to a Gateway selects. For each listener, it returns the hosts that
// both the listener and the route accept. If there is no such listener, refused is the reason.
func (d *decision) hostsOf(ref gw.ParentReference, g *gw.Gateway, r *gw.HTTPRoute) (
	hosts map[*listener][]routes.Host, refused *problem,
) {
	named, allowed := false, false
	hosts = map[*listener][]routes.Host{}
	for _, l := range d.listeners {
		if l.gateway != g || !l.isNamed(ref) {
			continue
		}
		named = true
		var namespaces *gw.RouteNamespaces
		if l.AllowedRoutes != nil {
			namespaces = l.AllowedRoutes.Namespaces
		}
		if l.refused != nil || len(l.kinds()) == 0 || !d.allows(namespaces, g.Namespace, r.Namespace) {
			continue
		}
		allowed = true
		if of := l.hosts(r.Spec.Hostnames); len(of) > 0 {
			hosts[l] = of
		}
	}
	switch {
	case !named:
		return nil, problemf(gw.RouteReasonNoMatchingParent,
			"Gateway %s has no listener with the sectionName and the port of the parentRef", nameOf(g))
	case !allowed:
		return nil, problemf(gw.RouteReasonNotAllowedByListeners,
			"no listener of Gateway %s allows HTTPRoutes of namespace %s: see its allowedRoutes and its conditions",
			nameOf(g), r.Namespace)
	case len(hosts) == 0:
		return nil, problemf(gw.RouteReasonNoMatchingListenerHostname,
			"no listener of Gateway %s accepts one of the route's hostnames", nameOf(g))
	}
	return hosts, nil
}

func union(hosts, more []routes.Host) []routes.Host {
	hosts = append(slices.Clone(hosts), more...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// tableListener returns the entry of the table for a listener.
func (d *decision) tableListener(l *listener) routes.Listener {
	entry := routes.Listener{
		Gateway: nameOf(l.gateway).String(), Name: string(l.Name), Port: l.Port, PodPort: l.podPort, Host: l.host(),
		TLS: l.Protocol == gw.HTTPSProtocolType,
	}
	for _, i := range slices.Sorted(maps.Keys(l.attached)) {
		entry.Attached = append(entry.Attached, routes.Attachment{
			Route: d.result.Table.Routes[i].ID(), Hosts: l.attached[i],
		})
	}
	return entry
}
