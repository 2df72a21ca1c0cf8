package routemap_test

import (
	"fmt"
	"net/url"
	"sort"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// root is the path of matches whose other parts are tested.
var root = routes.Path{Value: "/"}

// longest returns the match with the longest text that Check accepts, among the texts of up to most characters.
func longest(t *testing.T, most int, make func(length int) routes.Match) routes.Match {
	t.Helper()
	length := sort.Search(most, func(n int) bool { return routemap.Check(make(n+1)) != nil })
	if length < 80 {
		t.Errorf("%d characters are too many for %.40v", length+1, make(length+1))
	}
	return make(length)
}

// TestLongest checks that nginx reads the longest texts that Check accepts, and compares them correctly.
func TestLongest(t *testing.T) {
	t.Parallel()
	// These are the limits of the Gateway API.
	const maxPath, maxHeader, maxArgument = 1023, 4096, 1024
	var matches []routes.Match
	for _, of := range []string{"a", ",", "%", "ü", `"`, `\`} {
		pair := func(n int) []routes.Pair { return []routes.Pair{{Name: "x", Value: strings.Repeat(of, max(n, 1))}} }
		matches = append(matches,
			longest(t, maxPath, func(n int) routes.Match {
				return routes.Match{Path: routes.Path{Value: "/" + strings.Repeat(of, n), Exact: true}}
			}),
			longest(t, maxPath, func(n int) routes.Match {
				return routes.Match{Path: routes.Path{Value: "/" + strings.Repeat(of, n)}, Method: "PUT"}
			}),
			longest(t, maxHeader, func(n int) routes.Match { return routes.Match{Path: root, Headers: pair(n)} }),
			longest(t, maxArgument, func(n int) routes.Match { return routes.Match{Path: root, Query: pair(n)} }))
	}
	checkEach(t, matches)
}

// TestManyConditions checks that nginx reads maps that compare very many conditions.
func TestManyConditions(t *testing.T) {
	t.Parallel()
	var matches []routes.Match
	for i := range 60 {
		m := routes.Match{Path: root}
		for j := range 16 { // the maximum of the Gateway API
			m.Headers = append(m.Headers, routes.Pair{Name: fmt.Sprintf("h-%d", j), Value: fmt.Sprint(i)})
			m.Query = append(m.Query, routes.Pair{Name: fmt.Sprintf("q-%d", j), Value: fmt.Sprint(i)})
		}
		if err := routemap.Check(m); err != nil {
			t.Error(err)
		}
		matches = append(matches, m)
	}
	checkEach(t, matches)
}

// checkEach sends a request for each match to nginx. The rules in the table have one match each.
func checkEach(t *testing.T, matches []routes.Match) {
	t.Helper()
	route := routes.Route{Namespace: "team", Name: "shop"}
	for _, m := range matches {
		route.Rules = append(route.Rules, routes.Rule{Matches: []routes.Match{m}})
	}
	table := routes.Table{Routes: []routes.Route{route}, Listeners: []routes.Listener{{
		PodPort: firstPort, Attached: []routes.Attachment{{Route: route.ID(), Hosts: []routes.Host{""}}},
	}}}
	n := serve(t, table)
	vhosts := table.VirtualHosts(firstPort)
	for i, m := range matches {
		r := routes.Request{Host: "a.com", Method: "GET", Headers: map[string]string{}}
		if m.Method != "" {
			r.Method = m.Method
		}
		for _, h := range m.Headers {
			r.Headers[h.Name] = h.Value
		}
		query := url.Values{}
		for _, q := range m.Query {
			query.Set(q.Name, q.Value)
		}
		uri := (&url.URL{Path: m.Path.Value, RawQuery: query.Encode()}).RequestURI()
		got, understood := dial(t, n, firstPort).ask(t, r, uri)
		if want := want(vhosts, understood); got != want || got == "" {
			t.Errorf("match %d: rule %q, want %q: %.100q", i, got, want, uri)
		}
	}
}
