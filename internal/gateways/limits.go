package gateways

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

const (
	// maxTableBytes limits the size of the table, as JSON. An agent reads at most 16 MiB.
	maxTableBytes = 4 << 20
	// maxPackedBytes limits the compressed size of the table. A ConfigMap contains two revisions, each with the whole
	// table, and has room for 1 MiB.
	maxPackedBytes = 440 << 10
	// maxRowBytes limits the size of the rows of maps that nginx's configuration contains for the table. Each match of
	// a route is a row for each host of each listener to which the route is attached. rowBytes is the size of a row in
	// addition to the match, and of each condition on a header or an argument. nginx compiles a regular expression for
	// each row, which takes about 2 KiB of memory.
	maxRowBytes = 6 << 20
	rowBytes    = 128
	// listenerPolicy is the number of variables that a policy for listeners counts in addition. Each rule of an attached
	// route has another action for it.
	listenerPolicy = 64
	// maxVariables limits the number of nginx's variables for matches. Each request to any host needs 16 bytes for each of
	// nginx's variables.
	maxVariables = 4 << 10
	// maxBackends limits the number of backends, which count once for each route. nginx has two shared memory zones for
	// each backend, and the agent looks up its name.
	maxBackends = 4 << 10
	// maxCertificateBytes limits the size of certificates with their keys. The Secrets with certificates have room for
	// more, because they also contain certificates of earlier tables that a pod may still need.
	maxCertificateBytes = 12 << 20
	// shares is the number of namespaces that can use up all room together. So one team cannot use up the room of all.
	shares = 4
	// times is how much more than its share of routes and of rows a namespace may have, accepted or not. The decision
	// about them takes time.
	times = 4

	// reasonNoRoom is the reason of the condition Accepted for a route or a listener that exceeds the limits of the
	// CacheNode. The Gateway API defines no reason for this case.
	reasonNoRoom = "NoRoom"
)

// newRoom returns the room of a fleet, of which nothing is used.
func newRoom(fleet Fleet) *room {
	return &room{
		fleet: fleet, of: map[string]use{}, hashes: newHashes(), plan: routemap.NewPlan(),
		planned: map[string]int{}, certificates: map[owned]bool{}, policies: map[owned]bool{},
	}
}

// room compares what the table contains with the limits of the fleet.
type room struct {
	fleet  Fleet
	packer packer
	total  use
	of     map[string]use // by namespace
	hashes hashes
	// plan contains the routes that have room, and unkeyed what they add to [routes.Table.Unkeyed].
	plan    *routemap.Plan
	unkeyed []routes.Unkeyed
	// planned is the size of the rows of all routes of a namespace for which a plan was made, also of those that were
	// removed from it again.
	planned map[string]int
	// certificates and policies are those that were counted already.
	certificates, policies map[owned]bool
}

// owned is a certificate or a policy that a namespace uses, by its ID.
type owned struct{ namespace, id string }

// use is a number of routes, with the size of their entries as JSON, the compressed size, the size of their rows, and
// the number of their variables and their backends. certificates is the size of certificates with their keys.
type use struct{ routes, bytes, packed, rowBytes, variables, backends, certificates int }

func (u use) plus(more use) use {
	return use{
		u.routes + more.routes, u.bytes + more.bytes, u.packed + more.packed, u.rowBytes + more.rowBytes,
		u.variables + more.variables, u.backends + more.backends, u.certificates + more.certificates,
	}
}

// takeListener uses room for a listener of a Gateway. If there is not enough, it returns a problem and uses nothing.
// rules are the rules of policies, by ID.
func (r *room) takeListener(namespace string, l routes.Listener, rules map[string]v1alpha1.CacheRules) *problem {
	keys := routemap.HostKeys(routemap.Authority{Port: l.PodPort, Host: l.Host})
	if problem := r.hashes.check(namespace, keys); problem != nil {
		return problem
	}
	l.Attached = []routes.Attachment{{}} // the list is larger than an empty one
	policies := map[string]bool{l.Policy: true}
	u := r.sizeOf(l)
	if l.Policy != "" && !r.policies[owned{namespace, l.Policy}] {
		u.variables += listenerPolicy
	}
	problem := r.take(namespace, u.plus(r.sizeOfPolicies(namespace, policies, rules)))
	if problem == nil {
		r.hashes.add(namespace, keys)
		r.countPolicies(namespace, policies)
	}
	return problem
}

// takeCertificate uses room for a certificate, once for each namespace with Gateways that use it. If there is not
// enough, it returns a problem and uses nothing.
func (r *room) takeCertificate(namespace, id string, text []byte) *problem {
	of := owned{namespace, id}
	if r.certificates[of] {
		return nil
	}
	problem := r.take(namespace, use{certificates: len(text)})
	r.certificates[of] = problem == nil
	return problem
}

// sizeOfPolicies returns the size of those policies that were not counted yet. rules are the rules of policies, by ID.
func (r *room) sizeOfPolicies(namespace string, ids map[string]bool, rules map[string]v1alpha1.CacheRules) (u use) {
	for id := range ids {
		if id != "" && !r.policies[owned{namespace, id}] {
			u = u.plus(r.sizeOf(rules[id]))
			u.bytes += len(id)
			u.packed += len(id)
			u.variables += policyVariables(rules[id])
			u.rowBytes += rowBytes * policyRows(rules[id])
		}
	}
	return u
}

// countPolicies records policies as counted.
func (r *room) countPolicies(namespace string, ids map[string]bool) {
	for id := range ids {
		r.policies[owned{namespace, id}] = true
	}
}

// takeRoute uses room for a route that is attached to the given listeners. If there is not enough, it returns a problem
// and uses nothing. rules are the rules of policies, by ID.
func (r *room) takeRoute(
	route routes.Route, hosts map[*listener][]routes.Host, rules map[string]v1alpha1.CacheRules,
) *problem {
	u, matches := r.sizeOf(route), 0
	u.routes, u.backends = 1, len(backendsOf(route))
	u.variables = len(conditionsOf(route)) + weighted(route)
	policies := map[string]bool{}
	for _, rule := range route.Rules {
		policies[rule.Policy] = true
		for _, m := range rule.Matches {
			matches += rowBytes*(1+len(m.Headers)+len(m.Query)) + len(encode(m))
		}
	}
	for _, of := range hosts {
		u.rowBytes += len(of) * matches
	}
	u = u.plus(r.sizeOfPolicies(route.Namespace, policies, rules))
	if problem := r.check(route.Namespace, u); problem != nil {
		return problem // before anything is measured that may be very large
	}
	if r.planned[route.Namespace] += u.rowBytes; r.planned[route.Namespace] > times*maxRowBytes/shares {
		return problemf(reasonNoRoom, "CacheNode %s considers no more matches of namespace %s: there are too many in older "+
			"routes, accepted or not", r.fleet, route.Namespace)
	}
	authorities := authoritiesOf(hosts)
	hostKeys := hostKeysOf(authorities)
	if problem := r.hashes.check(route.Namespace, hostKeys); problem != nil {
		return problem
	}
	for _, of := range hosts {
		u = u.plus(r.sizeOf(routes.Attachment{Route: route.ID(), Hosts: of}))
	}
	added := r.plan.Add(route, authorities)
	u.variables += added.Maps
	for _, unkeyed := range added.Unkeyed {
		u = u.plus(r.sizeOf(unkeyed))
	}
	if problem := r.take(route.Namespace, u); problem != nil {
		r.plan.Undo()
		return problem
	}
	r.hashes.add(route.Namespace, hostKeys)
	r.countPolicies(route.Namespace, policies)
	r.unkeyed = append(r.unkeyed, added.Unkeyed...)
	return nil
}

// authoritiesOf returns the virtual hosts of a route. Only listeners that the table contains have virtual hosts.
func authoritiesOf(hosts map[*listener][]routes.Host) map[routemap.Authority]bool {
	authorities := map[routemap.Authority]bool{}
	for l, of := range hosts {
		for _, h := range of {
			if l.serves() {
				authorities[routemap.Authority{Port: l.podPort, Host: h}] = true
			}
		}
	}
	return authorities
}

// hostKeysOf returns the keys of nginx's tables that contain the hosts of some virtual hosts, sorted.
func hostKeysOf(of map[routemap.Authority]bool) []string {
	keys := map[string]bool{}
	for a := range of {
		for _, key := range routemap.HostKeys(a) {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// weighted returns the number of rules whose backends are chosen by weight. nginx has a variable for each of them.
func weighted(r routes.Route) (rules int) {
	for i := range r.Rules {
		if len(r.Choices(i, "")) > 1 {
			rules++
		}
	}
	return rules
}

// backendsOf returns the names of a route's backends.
func backendsOf(r routes.Route) map[string]bool {
	names := map[string]bool{}
	for _, rule := range r.Rules {
		for _, b := range rule.Backends {
			names[b.Name] = true
		}
	}
	return names
}

// conditionsOf returns the headers and arguments in the matches of a route, each with its value.
func conditionsOf(r routes.Route) map[string]bool {
	conditions := map[string]bool{}
	for _, rule := range r.Rules {
		for _, m := range rule.Matches {
			for _, h := range m.Headers {
				conditions["header "+h.Name+" "+h.Value] = true
			}
			for _, q := range m.Query {
				conditions["argument "+q.Name+" "+q.Value] = true
			}
		}
	}
	return conditions
}

// sizeOf returns the size of an entry of the table, with a comma after it.
func (r *room) sizeOf(entry any) use {
	text := encode(entry)
	return use{bytes: len(text) + 1, packed: r.packer.size(text) + 1}
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // this cannot happen, because the table contains only texts and numbers
	}
	return text
}

// tooMany returns a problem if a namespace already has very many routes that name a Gateway of the fleet, accepted or
// not. The decision about each of them takes time.
func (r *room) tooMany(considered int) *problem {
	if most := times * r.fleet.MaxRoutesPerNamespace; considered >= most {
		return problemf(reasonNoRoom, "CacheNode %s considers only the %d oldest routes of a namespace, accepted or not: "+
			"see its spec.gateways.maxRoutesPerNamespace", r.fleet, most)
	}
	return nil
}

// take uses room for a namespace. If there is not enough, it returns a problem and uses nothing.
func (r *room) take(namespace string, more use) *problem {
	if problem := r.check(namespace, more); problem != nil {
		return problem
	}
	r.of[namespace], r.total = r.of[namespace].plus(more), r.total.plus(more)
	return nil
}

// check returns a problem if there is not enough room for a namespace.
func (r *room) check(namespace string, more use) *problem {
	if has := r.exceeds(namespace, r.of[namespace].plus(more), r.total.plus(more)); has != "" {
		return problemf(reasonNoRoom, "CacheNode %s has no room: %s. Remove what is not needed; "+
			"docs/howto/gateways.md describes the limits", r.fleet, has)
	}
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
		{"bytes of routes and listeners", own.bytes, all.bytes, maxTableBytes},
		{"bytes of routes and listeners, compressed,", own.packed, all.packed, maxPackedBytes},
		{"bytes of matches, counted for each host of each listener,", own.rowBytes, all.rowBytes, maxRowBytes},
		{"nginx variables for matches, counted for each host,", own.variables, all.variables, maxVariables},
		{"backends, counted for each route,", own.backends, all.backends, maxBackends},
		{"bytes of certificates", own.certificates, all.certificates, maxCertificateBytes},
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
