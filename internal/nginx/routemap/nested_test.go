package routemap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestNestedWildcards checks requests that fall through from each virtual host to the next one with fewer labels, up to
// the last one. nginx evaluates at most 100 variables within each other (ngx_http_variable_depth).
func TestNestedWildcards(t *testing.T) {
	t.Parallel()
	const labels = routes.MaxWildcardLabels
	table := routes.Table{Listeners: []routes.Listener{{PodPort: firstPort}}}
	add := func(host string, paths ...string) {
		r := routes.Route{Namespace: "team", Name: fmt.Sprint("r", len(table.Routes))}
		for _, path := range paths {
			r.Rules = append(r.Rules, routes.Rule{Matches: []routes.Match{{Path: routes.Path{Value: path}}}})
		}
		table.Routes = append(table.Routes, r)
		table.Listeners[0].Attached = append(table.Listeners[0].Attached, routes.Attachment{
			Route: r.ID(), Hosts: []routes.Host{routes.Host(host)},
		})
	}
	var paths []string // below each segment of the request's path, and longer than its path
	for depth := range 10 {
		paths = append(paths, strings.Repeat("/a", depth)+"/odd path") // no key
		for i := range 10 {
			paths = append(paths, strings.Repeat("/a", depth)+fmt.Sprint("/b", i))
		}
	}
	name := strings.TrimSuffix(strings.Repeat("x.", 2*labels), ".")
	add(name, paths...)
	for n := 1; n < labels; n++ {
		add("*"+strings.Repeat(".x", n), paths...)
	}
	add("", append(paths, "/a")...)
	c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
	for _, uri := range []string{strings.Repeat("/a", 10), strings.Repeat("/a", 9) + "/b9", "/a/b10", "/c"} {
		got, understood := c.ask(t, routes.Request{Host: name, Method: "GET"}, uri)
		if want := want(vhosts, understood); got != want {
			t.Errorf("%s: rule %q, want %q", uri, got, want)
		}
	}
}
