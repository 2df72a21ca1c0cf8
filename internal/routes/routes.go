// Package routes defines what the Gateways of a fleet serve. It contains the listeners and the routes that are attached
// to them, and it decides which rule of which route answers a request. Routes come from HTTPRoutes of the Gateway API.
// The package is pure.
//
// The package imports only the API. A new kind of match or of action belongs here. The code that
// makes nginx evaluate it belongs in nginx/cache.
package routes

import (
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Table contains the routes of a fleet and the listeners to which they are attached. It is part of a revision, so
// agents of other versions must be able to read its JSON form.
type Table struct {
	Listeners []Listener `json:"listeners,omitempty"`
	// Routes are sorted by precedence: older routes before newer ones, and routes of the same age by namespace and name.
	Routes []Route `json:"routes,omitempty"`
	// Policies are the cache policies of rules and listeners, by ID; see [PolicyID]. Agents of earlier versions do not
	// know them.
	Policies map[string]v1alpha1.CacheRules `json:"policies,omitempty"`
	// Unkeyed are paths that must not be keys of nginx's maps; see [routemap.Plan]. Usually there are none.
	Unkeyed []Unkeyed `json:"unkeyed,omitempty"`
}

// Unkeyed is a path of a virtual host that must not be a key of nginx's maps.
type Unkeyed struct {
	// PodPort and Host identify the virtual host.
	PodPort int32 `json:"podPort"`
	Host    Host  `json:"host,omitempty"`
	// Path is a path, or the first segments of paths. Exact is true if only exact paths must not be this key.
	Path  string `json:"path"`
	Exact bool   `json:"exact,omitempty"`
}

// Listener is a listener of a Gateway.
type Listener struct {
	// Gateway is the namespace and the name of the Gateway, with a slash between them. Name is the listener's name.
	Gateway string `json:"gateway"`
	Name    string `json:"name"`
	// Port is the port of the Gateway's address. PodPort is the port of the pods that gets the requests of that port. All
	// listeners of a Gateway with the same Port have the same PodPort. No other listener has this PodPort.
	Port    int32 `json:"port"`
	PodPort int32 `json:"podPort"`
	// Host is the pattern of the hosts that the listener accepts.
	Host Host `json:"host,omitempty"`
	// Certificate is the ID of the certificate that clients see; "" for a listener without TLS.
	Certificate string `json:"certificate,omitempty"`
	// Policy is the ID of the policy for routes without a policy of their own; "" if there is none.
	Policy string `json:"policy,omitempty"`
	// Attached are the routes that are attached to the listener.
	Attached []Attachment `json:"attached,omitempty"`
}

// Door identifies what a listener offers to clients. It contains everything of the listener but its routes and its
// policy.
type Door struct {
	Gateway, Name string
	Port, PodPort int32
	Host          Host
	Certificate   string
}

// Door returns what the listener offers to clients.
func (l Listener) Door() Door {
	return Door{l.Gateway, l.Name, l.Port, l.PodPort, l.Host, l.Certificate}
}

// WithoutCertificates returns the table without the listeners whose certificate is missing.
func (t Table) WithoutCertificates(isMissing func(id string) bool) Table {
	t.Listeners = slices.DeleteFunc(slices.Clone(t.Listeners), func(l Listener) bool {
		return l.Certificate != "" && isMissing(l.Certificate)
	})
	return t
}

// Attachment is a route that is attached to a listener.
type Attachment struct {
	// Route is the ID of the route.
	Route string `json:"route"`
	// Hosts are the hosts that both the route and the listener accept.
	Hosts []Host `json:"hosts"`
}

// Route is an HTTPRoute.
type Route struct {
	// Namespace and Name are the namespace and the name of the HTTPRoute.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Site is the site to which the objects of the route belong. No two routes have the same site, even if one of them
	// was deleted.
	Site  string `json:"site"`
	Rules []Rule `json:"rules"`
}

// ID returns the namespace and the name of the route, with a slash between them.
func (r Route) ID() string { return r.Namespace + "/" + r.Name }

// InSpec returns the position in spec.rules of the HTTPRoute for a position in Rules.
func (r Route) InSpec(rule int) int {
	position := rule
	for _, earlier := range r.Rules[:rule+1] {
		position += earlier.Skipped
	}
	return position
}

// Rule is a rule of a route.
type Rule struct {
	// Matches are the conditions of the rule. A request must meet at least one of them. The list is not empty.
	Matches []Match `json:"matches"`
	// Redirect answers the requests with a redirect, without a backend.
	Redirect *Redirect `json:"redirect,omitempty"`
	// Headers changes the headers of requests to the backends.
	Headers HeaderChanges `json:"headers,omitzero"`
	// Backends answer requests, in proportion to their weights. A rule with neither backends nor a redirect answers with
	// status 500.
	Backends []Backend `json:"backends,omitempty"`
	// Policy is the ID of the rule's own policy; "" if there is none.
	Policy string `json:"policy,omitempty"`
	// Skipped is the number of rules of the HTTPRoute directly before this one that are not in the list.
	Skipped int `json:"skipped,omitempty"`
}

// Redirect is an answer that sends the client to another location. If a field is empty, the location contains the value
// of the request instead.
type Redirect struct {
	Status int    `json:"status"`
	Scheme string `json:"scheme,omitempty"`
	Host   string `json:"host,omitempty"`
	Port   int32  `json:"port,omitempty"`
}

// HeaderChanges changes headers. No name occurs more than once in Set, Add and Remove, even if case is ignored.
type HeaderChanges struct {
	Set    []Pair   `json:"set,omitempty"`
	Add    []Pair   `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// IsEmpty returns true if no header is changed.
func (c HeaderChanges) IsEmpty() bool { return len(c.Set)+len(c.Add)+len(c.Remove) == 0 }

// Backend is a Service that answers requests.
type Backend struct {
	// Name identifies the backend in keys and logs. It consists of the namespace and the name of the Service, and the
	// port.
	Name string `json:"name"`
	// Host and Port are the name and the port to which requests are sent. Host is "" for a backend that cannot be used.
	// Requests for such a backend are answered with 500.
	Host   string `json:"host,omitempty"`
	Port   int32  `json:"port,omitempty"`
	Weight int32  `json:"weight"`
}

// Match is a condition for requests. A request meets the condition if it meets all parts of the condition.
type Match struct {
	Path Path `json:"path"`
	// Method is the method of the request; "" stands for any method.
	Method string `json:"method,omitempty"`
	// Headers are headers of the request and their values. No two names are equal if case is ignored.
	Headers []Pair `json:"headers,omitempty"`
	// Query are arguments of the request and their values. No two names are equal.
	Query []Pair `json:"query,omitempty"`
}

// Pair is a header or an argument with its value. The value is not empty.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Path is a condition for the path of a request. The path of a request is compared after percent-encoding is decoded,
// dot segments are removed and slashes are merged, as in nginx's variable $uri.
type Path struct {
	// Value is an absolute path in decoded form. A prefix ends with a slash only if it is "/".
	Value string `json:"value"`
	// Exact is true if the path of the request must be equal to Value. Otherwise Value must be equal to the path, or to
	// the first segments of the path.
	Exact bool `json:"exact,omitempty"`
}

// Certificates returns the IDs of the certificates of all listeners, sorted, each once.
func (t Table) Certificates() (ids []string) {
	for _, l := range t.Listeners {
		if l.Certificate != "" {
			ids = append(ids, l.Certificate)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// BackendHosts returns the host names of all backends.
func (t Table) BackendHosts() map[string]bool {
	hosts := map[string]bool{}
	for _, r := range t.Routes {
		for _, rule := range r.Rules {
			for _, b := range rule.Backends {
				if b.Host != "" {
					hosts[b.Host] = true
				}
			}
		}
	}
	return hosts
}
