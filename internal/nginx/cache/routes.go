package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// All routes share one set of locations, in addition to the locations of the CacheNode's own site. The differences
// between routes are only in maps. From the action of a request, these maps select the site in the key and the backend.
const (
	// routesSuffix is at the end of all names of the routes' part of the configuration.
	routesSuffix = "_of_routes"
	// routeVariable is the ID of the action of a request, or one of the next two values. The server for clients
	// determines the value, and sends it to other servers in routeHeader.
	routeVariable = "$route"
	// noBackend is for requests whose rule has no backend that can be used.
	noBackend = "no-backend"
	// redirectTo is the prefix of the value for requests that are redirected.
	redirectTo  = "redirect-"
	routeHeader = "X-CacheNode-Route"
	// routeSite is the mark of the site at the beginning of a key. It is "" for an action that the pod does not know. This
	// happens while pods have different revisions.
	routeSite = "$route_site"
	// routeBackend is the name of the upstream to which the gateway sends a request. This is the upstream of the backend,
	// or the upstream filters. backendPattern matches all these names.
	routeBackend   = "$route_backend"
	backendSuffix  = "_backend"
	backendPattern = "(?:[0-9a-f]+" + backendSuffix + "|" + filters + ")"
	// unusualHost is 1 for requests whose header Host does not have the usual form. The usual form contains the listener's
	// port if this is not the default port of the scheme, and otherwise no port. A request with another form bypasses the
	// caches, because its backend gets the header unchanged. sentHost is the header Host of requests to the backend.
	unusualHost = "$is_unusual_host"
	sentHost    = "$sent_host"
	// portOfListener is a colon and the port of the listener, if that is not the default port.
	portOfListener = "$port_of_listener"
	// redirected301 and redirected302 are the locations to which requests are redirected.
	redirected301 = "$redirected_301"
	redirected302 = "$redirected_302"
)

// routed is the part of the configuration with the maps and backends of routes.
type routed struct{ node }

// hasRoutes returns true if a Gateway has a listener.
func (n node) hasRoutes() bool { return len(n.Routes.Listeners) > 0 }

// tellsRoute returns the directive that tells another server of the CacheNode the action of a request. The
// CacheNode's own site has no actions, and removes this header from the requests of clients.
func (s site) tellsRoute() conf.Block {
	switch {
	case s.ofRoutes:
		return conf.Block{setHeader(routeHeader, conf.Expression(routeVariable))}
	case s.hasRoutes():
		return conf.Block{setHeader(routeHeader, conf.Literal(""))}
	default:
		return nil
	}
}

// toldRoute returns the directive that tells the server filters the action of a request. Backends do not get the
// action.
func (s site) toldRoute() conf.Block {
	if !s.ofRoutes {
		return nil
	}
	return conf.Block{setHeader(routeHeader, conf.Expression(filteredRoute))}
}

// unknownRoute makes a server answer with a status if the pod does not know the action of the request.
func (s site) unknownRoute(status string) conf.Block {
	if !s.ofRoutes {
		return nil
	}
	return conf.Block{ifEqual(routeSite, "", conf.D("return", conf.Literal(status)))}
}

// ifEqual returns a block whose directives run if a variable has a value.
func ifEqual(variable conf.Expression, value conf.Literal, block ...conf.Directive) conf.Directive {
	return conf.B("if", []conf.Argument{"(" + variable, conf.Literal("="), value, conf.Literal(")")}, block...)
}

// http returns the maps that find the action of a request, with its site, its backend and its policy. It also returns
// the upstreams of the backends.
func (r routed) http() conf.Block {
	actions := r.Routes.Actions()
	for _, a := range r.Also {
		actions[a.ID] = a
	}
	ids := slices.Sorted(maps.Keys(actions))
	marks, backends := conf.Block{conf.D("default", conf.Literal(""))}, conf.Block{conf.D("default", conf.Literal(""))}
	policies := conf.Block{conf.D("default", conf.Literal(""))}
	upstreams := map[string]conf.Block{}
	var filtered []filter
	for _, id := range ids {
		a := actions[id]
		site, err := cachekey.NewSite(a.Site)
		if err != nil { // the action stays unknown
			continue
		}
		marks = append(marks, conf.Row(conf.Literal(id), conf.Literal(site.Prefix())))
		if a.Policy != "" {
			policies = append(policies, conf.Row(conf.Literal(id), conf.Literal(a.Policy)))
		}
		name, upstream := r.upstream(a)
		upstreams[name] = upstream
		if a.Headers.IsEmpty() {
			backends = append(backends, conf.Row(conf.Literal(id), conf.Literal(name)))
			continue
		}
		backends = append(backends, conf.Row(conf.Literal(id), conf.Literal(filters)))
		filtered = append(filtered, filter{action: a, upstream: name})
	}
	values := r.values()
	of := func(c routes.Candidate) conf.Argument { return values[c.Use] }
	block := slices.Concat(
		routemap.Maps(r.Routes, of), r.choices(), r.redirects(), r.ofPorts(), r.secureMaps(), r.filters(filtered))
	block = append(block, conf.Map(routeVariable, routeSite, marks...), conf.Map(routeVariable, routeBackend, backends...))
	if len(policies) > 1 {
		block = append(block, conf.Map(routeVariable, routePolicy, policies...))
	}
	for _, name := range slices.Sorted(maps.Keys(upstreams)) {
		block = append(block, upstreams[name]...)
	}
	return block
}

// values returns the value of [routemap.Rule] for each rule. A rule has many candidates, so its value is computed once.
func (r routed) values() map[routes.Use]conf.Argument {
	values := map[routes.Use]conf.Argument{}
	for _, use := range r.Routes.Uses() {
		values[use] = r.value(use)
	}
	return values
}

func (r routed) value(use routes.Use) conf.Argument {
	route := r.Routes.Routes[use.Route]
	if route.Rules[use.Rule].Redirect != nil {
		return redirection(r.Routes, use)
	}
	switch choices := route.Choices(use.Rule, use.Policy); len(choices) {
	case 0:
		return conf.Literal(noBackend)
	case 1:
		return orNone(choices[0])
	default:
		return chosen(r.Routes.ID(use))
	}
}

func orNone(a routes.Action) conf.Argument {
	if a.ID == "" {
		return conf.Literal(noBackend)
	}
	return conf.Literal(a.ID)
}

// chosen returns the variable with the action that was chosen for a request whose rule has several backends.
func chosen(rule string) conf.Expression { return conf.Expression("$choice_" + rule) }

// choices returns the blocks that choose one of several backends, by their weights.
func (r routed) choices() (block conf.Block) {
	for _, use := range r.Routes.Uses() {
		route := r.Routes.Routes[use.Route]
		actions := route.Choices(use.Rule, use.Policy)
		if len(actions) < 2 {
			continue
		}
		split := conf.Block{}
		shares := sharesOf(route.Rules[use.Rule].Backends)
		for j, a := range actions[:len(actions)-1] {
			if shares[j] > 0 { // nginx accepts no share of 0
				split = append(split, conf.D(conf.Percent(shares[j]), orNone(a)))
			}
		}
		split = append(split, conf.D("*", orNone(actions[len(actions)-1])))
		block = append(block, conf.B("split_clients",
			[]conf.Argument{conf.Expression("$request_id"), chosen(r.Routes.ID(use))}, split...))
	}
	return block
}

// sharesOf returns the shares of backends in hundredths of a percent, by their weights. The sum is exactly 100%,
// because nginx refuses more.
func sharesOf(backends []routes.Backend) []int {
	const whole = 10000
	total, before := int64(0), int64(0)
	for _, b := range backends {
		total += int64(b.Weight)
	}
	shares := make([]int, len(backends))
	for i, b := range backends {
		until := before + int64(b.Weight)
		shares[i] = int(until*whole/total - before*whole/total)
		before = until
	}
	return shares
}

// upstream returns the name of the upstream for an action, and its directives. The name contains the whole hash of the
// backend: with a part of it, a team could find a backend that gets the same name as the backend of another team.
func (r routed) upstream(a routes.Action) (name string, block conf.Block) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", a.Backend.Host, a.Backend.Port))
	name = hex.EncodeToString(sum[:]) + backendSuffix
	b := r.backend(name)
	b.Servers = []v1alpha1.OriginServer{{Host: &a.Backend.Host, Port: &a.Backend.Port}}
	return name, b.upstreams()
}

// backend returns the settings that the backends of all routes share, with the given name of an upstream.
func (r routed) backend(name string) backend {
	return backend{Origin: sites.OfRoutes(r.Spec, nil).Origin, name: name}
}
