package routes

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// row is a match of a rule, for a host of a listener.
type row struct {
	Gateway string `json:"gateway"`
	Port    int32  `json:"port"`
	// Host is a name, a wildcard, or * for any host. Path ends with * if it is a prefix.
	Host string `json:"host"`
	Path string `json:"path"`
	// Conditions are the method, the headers and the arguments.
	Conditions string `json:"conditions,omitempty"`
	// Route and Rule identify the HTTPRoute and the position of the rule in its spec.rules, counted from 0.
	Route string `json:"route"`
	Rule  int    `json:"rule"`
	// To says where requests go.
	To string `json:"to"`
}

// list returns all rows, in the order of precedence for each port of a Gateway.
func list(of routes.Table) []row {
	rows := []row{}
	for _, port := range ports(of) {
		for _, host := range of.VirtualHosts(port) {
			for _, c := range host.Candidates {
				rows = append(rows, newRow(of, host, c))
			}
		}
	}
	return rows
}

// ports returns the ports of the pods, in the order of the listeners.
func ports(of routes.Table) (ports []int32) {
	seen := map[int32]bool{}
	for _, l := range of.Listeners {
		if !seen[l.PodPort] {
			seen[l.PodPort] = true
			ports = append(ports, l.PodPort)
		}
	}
	return ports
}

// answering returns the rows that answer a GET of a URL: one for each Gateway that has the port of the URL and a route
// for it.
func answering(of routes.Table, text string) (rows []row, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--url is %q, want a URL such as http://shop.example.com/items", text)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("--url: port %s: %w", port, err)
	}
	rows = []row{}
	for _, a := range of.Answers(int32(number), routes.Request{
		Host: strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), Method: "GET",
		Path: routes.NormalPath(u.Path), Query: u.RawQuery, Headers: map[string]string{},
	}) {
		rows = append(rows, newRow(of, a.VirtualHost, a.Candidate))
	}
	return rows, nil
}

func newRow(of routes.Table, host routes.VirtualHost, c routes.Candidate) row {
	l, route := of.Listeners[host.Listener], of.Routes[c.Route]
	r := row{
		Gateway: l.Gateway, Port: l.Port, Host: cmp.Or(string(host.Host), "*"), Path: c.Path.Value,
		Conditions: conditions(c.Match), Route: route.ID(), Rule: route.InSpec(c.Rule), To: target(route.Rules[c.Rule]),
	}
	if !c.Path.Exact {
		r.Path = strings.TrimSuffix(r.Path, "/") + "/*"
	}
	return r
}

// conditions returns the conditions of a match in addition to its path.
func conditions(m routes.Match) string {
	var list []string
	if m.Method != "" {
		list = append(list, m.Method)
	}
	for _, h := range m.Headers {
		list = append(list, h.Name+": "+h.Value)
	}
	for _, q := range m.Query {
		list = append(list, "?"+q.Name+"="+q.Value)
	}
	return strings.Join(list, ", ")
}

// target says where the requests of a rule go.
func target(r routes.Rule) string {
	if r.Redirect != nil {
		to := fmt.Sprintf("%d, %s://%s", r.Redirect.Status, cmp.Or(r.Redirect.Scheme, "SCHEME"),
			cmp.Or(r.Redirect.Host, "HOST"))
		if r.Redirect.Port != 0 {
			to += fmt.Sprintf(":%d", r.Redirect.Port)
		}
		return to
	}
	var list []string
	for _, b := range r.Backends {
		text := b.Name
		if b.Host == "" {
			text += " (status 500: see the route's ResolvedRefs)"
		}
		if len(r.Backends) > 1 {
			text += fmt.Sprintf(" (weight %d)", b.Weight)
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return "status 500: the rule has no backend"
	}
	return strings.Join(list, ", ")
}
