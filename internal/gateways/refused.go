package gateways

import (
	"maps"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Refused describes a route that nginx has refused. nginx takes what the checks of this package accept, so this happens
// only by a mistake in these checks. It must not keep the routes of other teams from the pods.
type Refused struct {
	// Forms are the fingerprints of the forms that nginx has refused; see [routes.Table.Fingerprint].
	Forms map[string]bool
	// Message is what nginx said.
	Message string
	// Good is the form that the pods serve; nil if there is none. Policies are the policies of its rules, by ID.
	Good     *routes.Route
	Policies map[string]v1alpha1.CacheRules
}

// fallBack replaces a route that nginx refuses by the form that the pods serve. Without such a form, it refuses the
// route.
func (d *decision) fallBack(c *compiled, hosts map[*listener][]routes.Host) {
	id := c.route.ID()
	f, ok := d.Refused[id]
	if !ok || !f.Forms[d.fingerprint(c.route, hosts)] {
		return
	}
	d.result.Refused[id] = f
	if f.Good == nil || f.Good.Site != c.route.Site || !d.mayServe(*f.Good) || f.Forms[d.fingerprint(*f.Good, hosts)] {
		c.refused = problemf(gw.RouteReasonUnsupportedValue, "nginx refuses the route: %s", f.Message)
		return
	}
	c.route, c.fellBack = *f.Good, true
	maps.Copy(d.rules, f.Policies)
	// The specification of the Gateway API defines how the message begins.
	c.partial = problemf(gw.RouteReasonUnsupportedValue,
		"Fall Back: nginx refuses the route: %s. The pods serve the last version that nginx accepted", f.Message)
}

// mayServe returns true if an earlier form of a route may still refer to all of its backends.
func (d *decision) mayServe(r routes.Route) bool {
	for _, rule := range r.Rules {
		for _, b := range rule.Backends {
			service, _, _ := strings.Cut(b.Name, ":")
			if name := naming.Split(service); name.Namespace != r.Namespace &&
				!d.Grants.allows(toService, r.Namespace, name.Namespace, name.Name) {
				return false
			}
		}
	}
	return true
}

// fingerprint returns the fingerprint of a route that is attached to some listeners.
func (d *decision) fingerprint(route routes.Route, hosts map[*listener][]routes.Host) string {
	t := routes.Table{Routes: []routes.Route{route}}
	for i := range d.Gateways {
		for _, l := range d.listeners[nameOf(&d.Gateways[i])] {
			if accepted, ok := hosts[l]; ok && l.serves() {
				entry := l.entry()
				entry.Attached = []routes.Attachment{{Route: route.ID(), Hosts: accepted}}
				t.Listeners = append(t.Listeners, entry)
			}
		}
	}
	return t.Fingerprint(route.ID())
}
