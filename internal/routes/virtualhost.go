package routes

import (
	"cmp"
	"slices"
)

// VirtualHost describes what a port serves for the hosts that a pattern accepts. Of all patterns that accept the host
// of a request, the pattern with the highest precedence determines the virtual host of the request.
type VirtualHost struct {
	Host Host
	// Listener is the position of the listener in the table.
	Listener int
	// Candidates are the matches for requests to this virtual host, in the order of precedence.
	Candidates []Candidate
	// Next is the position of the virtual host whose candidates apply if a request meets no candidate of this one; -1 if
	// there is none. The pattern of that virtual host accepts all hosts of this pattern. Both belong to the same listener.
	Next int
}

// Candidate is a match of a rule.
type Candidate struct {
	Match
	Use
}

// VirtualHosts returns the virtual hosts of a port of the pods, sorted by the precedence of their patterns.
//
// A request goes to the listener with the most specific pattern that accepts its host. Even if that listener has no
// route for the request, the request goes to no other listener (Gateway API, ListenerSpec.hostname). Therefore, each
// listener has a virtual host for its own pattern. A virtual host is left out if a more specific listener accepts all
// of its hosts.
//
// Among the routes of the listener, the routes for the most specific pattern come first. After them come the routes for
// the next pattern (HTTPRouteSpec.hostnames).
func (t Table) VirtualHosts(podPort int32) (hosts []VirtualHost) {
	routes := make(map[string]int, len(t.Routes))
	for i, r := range t.Routes {
		routes[r.ID()] = i
	}
	for i, l := range t.Listeners {
		if l.PodPort == podPort {
			hosts = append(hosts, t.virtualHosts(i, routes)...)
		}
	}
	hosts = slices.DeleteFunc(hosts, func(v VirtualHost) bool { return t.isTaken(v, podPort) })
	slices.SortFunc(hosts, func(a, b VirtualHost) int { return a.Host.compare(b.Host) })
	setNext(hosts)
	return hosts
}

// virtualHosts returns the virtual hosts of a listener. Their field Next is not set yet.
func (t Table) virtualHosts(listener int, routes map[string]int) []VirtualHost {
	l := t.Listeners[listener]
	hosts := []VirtualHost{{Host: l.Host, Listener: listener}}
	at := map[Host]int{l.Host: 0}
	for _, a := range l.Attached {
		route, ok := routes[a.Route]
		if !ok {
			continue
		}
		for _, h := range a.Hosts {
			if _, ok := at[h]; !ok {
				at[h] = len(hosts)
				hosts = append(hosts, VirtualHost{Host: h, Listener: listener})
			}
			v := &hosts[at[h]]
			for rule, r := range t.Routes[route].Rules {
				for _, m := range r.Matches {
					v.Candidates = append(v.Candidates, Candidate{m, Use{route, rule, cmp.Or(r.Policy, l.Policy)}})
				}
			}
		}
	}
	for _, v := range hosts {
		slices.SortStableFunc(v.Candidates, Candidate.compare)
	}
	return hosts
}

// isTaken returns true if a more specific listener of the port accepts all hosts of the virtual host.
func (t Table) isTaken(v VirtualHost, podPort int32) bool {
	own := t.Listeners[v.Listener].Host
	return slices.ContainsFunc(t.Listeners, func(l Listener) bool {
		return l.PodPort == podPort && l.Host != own && own.Covers(l.Host) && l.Host.Covers(v.Host)
	})
}

// setNext sets the field Next of all virtual hosts.
func setNext(hosts []VirtualHost) {
	type pattern struct {
		listener int
		host     Host
	}
	at := make(map[pattern]int, len(hosts))
	for i, v := range hosts {
		at[pattern{v.Listener, v.Host}] = i
	}
	for i := range hosts {
		hosts[i].Next = -1
		for host := hosts[i].Host; host != "" && hosts[i].Next < 0; {
			host = host.wider()
			if j, ok := at[pattern{hosts[i].Listener, host}]; ok {
				hosts[i].Next = j
			}
		}
	}
}

// compare returns a negative number if the candidate takes precedence over the other candidate for the same pattern of
// hosts (Gateway API, HTTPRouteRule.matches).
func (c Candidate) compare(other Candidate) int {
	return cmp.Or(
		trueFirst(c.Path.Exact, other.Path.Exact),
		-cmp.Compare(len(c.Path.Value), len(other.Path.Value)),
		trueFirst(c.Method != "", other.Method != ""),
		-cmp.Compare(len(c.Headers), len(other.Headers)),
		-cmp.Compare(len(c.Query), len(other.Query)),
		cmp.Compare(c.Route, other.Route),
		cmp.Compare(c.Rule, other.Rule))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
