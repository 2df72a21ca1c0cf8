package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
)

// Changed returns the IDs of the routes that the other table does not have in the same form, in the order of the table.
// A route has the same form if its rules, its hosts and its policies at each listener are the same.
func (t Table) Changed(other Table) (ids []string) {
	before, hosts := other.byID(), other.hosts()
	own := t.hosts()
	for _, r := range t.Routes {
		id := r.ID()
		if b, ok := before[id]; !ok || !reflect.DeepEqual(r, b) || !reflect.DeepEqual(own[id], hosts[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (t Table) byID() map[string]Route {
	routes := make(map[string]Route, len(t.Routes))
	for _, r := range t.Routes {
		routes[r.ID()] = r
	}
	return routes
}

// place is a listener to which a route is attached.
type place struct {
	gateway, name string
	port, podPort int32
	policy        string
}

// hosts returns the hosts of each route at each listener to which the route is attached.
func (t Table) hosts() map[string]map[place][]Host {
	hosts := map[string]map[place][]Host{}
	for _, l := range t.Listeners {
		for _, a := range l.Attached {
			if hosts[a.Route] == nil {
				hosts[a.Route] = map[place][]Host{}
			}
			hosts[a.Route][place{l.Gateway, l.Name, l.Port, l.PodPort, l.Policy}] = a.Hosts
		}
	}
	return hosts
}

// Without returns the table without some routes.
func (t Table) Without(ids map[string]bool) (rest Table) {
	rest.Unkeyed, rest.Policies = t.Unkeyed, t.Policies
	for _, r := range t.Routes {
		if !ids[r.ID()] {
			rest.Routes = append(rest.Routes, r)
		}
	}
	for _, l := range t.Listeners {
		attached := l.Attached
		l.Attached = nil
		for _, a := range attached {
			if !ids[a.Route] {
				l.Attached = append(l.Attached, a)
			}
		}
		rest.Listeners = append(rest.Listeners, l)
	}
	return rest
}

// Route returns the route with an ID; nil if there is none.
func (t Table) Route(id string) *Route {
	for i := range t.Routes {
		if t.Routes[i].ID() == id {
			return &t.Routes[i]
		}
	}
	return nil
}

// Fingerprint returns a hash of a route, and of its hosts and its policy at each listener; "" if the table does not
// contain the route.
func (t Table) Fingerprint(id string) string {
	route := t.Route(id)
	if route == nil {
		return ""
	}
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(route) // texts and numbers can always be encoded
	for _, l := range t.Listeners {
		for _, a := range l.Attached {
			if a.Route == id {
				_, _ = fmt.Fprintf(sum, "%q %q %d %q %q\n", l.Gateway, l.Name, l.PodPort, a.Hosts, l.Policy)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
