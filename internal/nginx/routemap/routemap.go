// Package routemap renders a table of routes as maps of nginx. It is pure.
//
// nginx evaluates a map only when a request needs the variable of the map. So each request evaluates only the few
// maps that lead to its own rule, however many routes there are:
//
//	$server_port ─▶ $host ─▶ exact path ─▶ segments of the path ─▶ a few regular expressions
//
// If a request meets no match in a map, it gets the map's default. The default is the variable of the next map.
//
// nginx ignores case when it looks up the key of a map. Hosts can be keys, because $host is always in lower case. For
// paths, see shared.go. Regular expressions compare only what cannot be a key: methods, headers, arguments, and paths
// with unusual characters.
//
// The package may import routes and conf. A new kind of match becomes a condition; see condition.go.
package routemap

import (
	"fmt"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Rule is the variable with the value of the rule that answers a request. It is "" if no rule answers the request, or
// if the port belongs to no listener.
const Rule = conf.Expression("$route_rule")

// Maps returns the maps that define [Rule]. The function value returns the value of a candidate.
func Maps(t routes.Table, value func(routes.Candidate) conf.Argument) conf.Block {
	m := &builder{
		value: value, conditions: map[string]conf.Expression{}, shared: newShared(), unkeyed: map[routes.Unkeyed]bool{},
	}
	for _, u := range t.Unkeyed {
		m.unkeyed[u] = true
	}
	var ports conf.Block
	seen := map[int32]bool{}
	for _, l := range t.Listeners {
		if seen[l.PodPort] {
			continue
		}
		seen[l.PodPort] = true
		ports = append(ports, conf.Row(conf.Int(l.PodPort), m.hosts(l.PodPort, t.VirtualHosts(l.PodPort))))
	}
	m.block = append(m.block, conf.Map("$server_port", virtualHost, append(conf.Block{none()}, ports...)...))
	return slices.Concat(m.block, m.shared.maps(), paths(max(m.depth, m.shared.depth())))
}

// builder collects the maps.
type builder struct {
	value func(routes.Candidate) conf.Argument
	block conf.Block
	// shared collects the rows that are not in block. unkeyed are the paths that must not be their keys.
	shared  *shared
	unkeyed map[routes.Unkeyed]bool
	// count is the number of maps with candidates. The names of variables contain it, so that they are unique.
	count int
	// depth is the number of segments by which candidates of a virtual host's own maps are divided.
	depth int
	// conditions contains the variable of each condition, by condition.
	conditions map[string]conf.Expression
	// joins is the number of maps that join conditions.
	joins int
}

// none returns the default of a map after which no other map comes.
func none() conf.Directive { return conf.D("default", conf.Literal("")) }

// variable returns a new variable.
func (m *builder) variable() conf.Expression {
	m.count++
	return conf.Expression(fmt.Sprintf("$route_%d", m.count))
}

// hosts adds the map for the virtual hosts of a port, and returns its variable.
func (m *builder) hosts(port int32, hosts []routes.VirtualHost) conf.Expression {
	rows, other := conf.Block{conf.D("hostnames")}, none()
	others := m.others(hosts)
	for i, h := range hosts {
		authority := Authority{port, h.Host}
		m.share(authority, "", 0, h.Candidates, others[i])
		if h.Host == "" {
			other = conf.D("default", conf.Literal(authority.String()))
			continue
		}
		rows = append(rows, conf.Row(HostKey(h.Host), conf.Literal(authority.String())))
	}
	variable := conf.Expression(fmt.Sprintf("$route_host_of_%d", port))
	m.block = append(m.block, conf.Map("$host", variable, append(rows, other)...))
	return variable
}

// others returns, for each virtual host, the value for requests that match none of its candidates. It adds maps for the
// candidates of virtual hosts that other virtual hosts name as their next one.
func (m *builder) others(hosts []routes.VirtualHost) []conf.Argument {
	isNext := make([]bool, len(hosts))
	for _, h := range hosts {
		if h.Next >= 0 && !takesAll(h) {
			isNext[h.Next] = true
		}
	}
	others, own := make([]conf.Argument, len(hosts)), make([]conf.Argument, len(hosts))
	for i := len(hosts) - 1; i >= 0; i-- { // Next is always a position further back in the list
		others[i] = conf.Literal("")
		if h := hosts[i]; h.Next >= 0 && !takesAll(h) {
			others[i] = own[h.Next]
		}
		if isNext[i] {
			own[i] = m.own(hosts[i].Candidates, others[i])
		}
	}
	return others
}

// takesAll returns true if a virtual host has a candidate for all requests.
func takesAll(h routes.VirtualHost) bool {
	return slices.ContainsFunc(h.Candidates, func(c routes.Candidate) bool {
		return c.Path == routes.Path{Value: "/"} && isForAll(c.Match)
	})
}

// isForAll returns true if a match has no conditions other than the path.
func isForAll(m routes.Match) bool { return m.Method == "" && len(m.Headers)+len(m.Query) == 0 }

// HostKey returns a host as the key of a map. It puts a backslash before a host that is also the name of a parameter of
// the directive map.
func HostKey(h routes.Host) conf.Literal {
	if h == "default" || h == "include" {
		return conf.Literal(`\` + h)
	}
	return conf.Literal(h)
}

// Sizes returns the directives that make the tables of nginx large enough for the maps of many routes. A host can have
// up to 253 characters. If two keys with the same hash did not fit into a bucket, nginx would try all sizes of a table.
func Sizes() conf.Block {
	return conf.Block{
		conf.D("map_hash_max_size", conf.Literal("65536")),
		conf.D("map_hash_bucket_size", conf.Int(bucketBytes)),
		conf.D("variables_hash_max_size", conf.Literal("65536")),
		conf.D("variables_hash_bucket_size", conf.Literal("128")),
	}
}
