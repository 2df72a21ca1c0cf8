package routemap_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// tableOf returns a table with a route for each of the given hosts. Each route has a rule for each path; a path that
// ends with "$" is exact. The last route has the host pattern "*.example.com" and the path "/".
func tableOf(hosts, paths []string) (t routes.Table) {
	l := routes.Listener{PodPort: firstPort}
	add := func(host string, paths []string) {
		r := routes.Route{Namespace: "team", Name: fmt.Sprint("route-", len(t.Routes))}
		for _, p := range paths {
			value, exact := strings.CutSuffix(p, "$")
			r.Rules = append(r.Rules, routes.Rule{Matches: []routes.Match{{Path: routes.Path{Value: value, Exact: exact}}}})
		}
		t.Routes = append(t.Routes, r)
		l.Attached = append(l.Attached, routes.Attachment{Route: r.ID(), Hosts: []routes.Host{routes.Host(host)}})
	}
	for _, h := range hosts {
		add(h, paths)
	}
	add("*.example.com", []string{"/"})
	t.Listeners = []routes.Listener{l}
	return t
}

// TestFewVariables checks that the number of nginx's variables does not depend on the number of hosts and paths: each
// request needs memory for all of them.
func TestFewVariables(t *testing.T) {
	t.Parallel()
	count := func(hosts, paths int) int {
		var of, each []string
		for i := range hosts {
			of = append(of, fmt.Sprintf("h-%d.example.com", i))
		}
		for i := range paths {
			each = append(each, fmt.Sprintf("/a/b-%d", i), fmt.Sprintf("/a/getB%d", i), fmt.Sprintf("/exact-%d$", i))
		}
		return strings.Count(written(t, tableOf(of, each)), "map ")
	}
	if few, many := count(2, 1), count(100, 50); many != few {
		t.Errorf("%d maps for 100 hosts with 150 paths each, %d for 2 hosts with 3", many, few)
	}
}

// TestEqualHashes checks that nginx takes very many paths with the same hash, and finds the rule of each of them.
func TestEqualHashes(t *testing.T) {
	t.Parallel()
	const blocks = 11
	of := func(i int) string {
		path := "/"
		for bit := range blocks {
			path += []string{"an", "c0"}[i>>bit&1] // both have the same hash
		}
		return path
	}
	var paths, asked []string
	for i := range 1 << blocks {
		if routemap.Hash(of(i)) != routemap.Hash(of(0)) {
			t.Fatalf("%s has another hash", of(i))
		}
		paths = append(paths, of(i)+"$")
		if i%20 == 19 { // few enough that some of them are keys
			paths = append(paths, of(i))
		}
		if i%100 < 3 || i%100 == 99 {
			asked = append(asked, of(i), of(i)+"/x")
		}
	}
	table := tableOf([]string{"a.example.com", "b.example.com"}, paths)
	c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
	for _, host := range []string{"a.example.com", "b.example.com", "c.example.com"} {
		for _, path := range append(asked, of(0)+"xx") {
			got, understood := c.ask(t, routes.Request{Host: host, Method: http.MethodGet}, path)
			if want := want(vhosts, understood); got != want {
				t.Fatalf("%s%s: rule %q, want %q", host, path, got, want)
			}
		}
	}
}

// TestEqualRemainders checks that few keys of a map are in the same list while nginx reads the map. Otherwise, a team
// could make nginx need minutes for its configuration.
func TestEqualRemainders(t *testing.T) {
	t.Parallel()
	const authority = "a.example.com:20000"
	const lists, most = 10007, 100 // of nginx, and of this package
	random := rand.New(rand.NewPCG(1, 2))
	var paths []string
	for len(paths) < 3*most {
		path := fmt.Sprintf("/%x", random.Uint64())
		if routemap.Hash(authority+path)%lists == 0 {
			paths = append(paths, path)
		}
	}
	table := tableOf([]string{"a.example.com"}, paths)
	text := written(t, table)
	keys := 0
	for _, path := range paths {
		keys += strings.Count(text, authority+path+" ")
	}
	if keys != most {
		t.Errorf("%d keys have the same remainder, want %d", keys, most)
	}
	c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
	for _, path := range paths {
		got, understood := c.ask(t, routes.Request{Host: "a.example.com", Method: http.MethodGet}, path)
		if want := want(vhosts, understood); got != want {
			t.Fatalf("%s: rule %q, want %q", path, got, want)
		}
	}
}

// TestCaseOfPaths checks paths that differ only in the case of letters.
func TestCaseOfPaths(t *testing.T) {
	t.Parallel()
	forms := []string{"/users/get", "/users/Get", "/users/GET", "/Users/get", "/USERS/get"}
	var paths []string
	for _, f := range forms[:4] {
		paths = append(paths, f, f+"/X$", f+"/x$")
	}
	for name, of := range map[string][]string{"all": paths, "one": paths[3:4], "exact": paths[1:2], "lower": paths[:1]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := tableOf([]string{"a.example.com", "*.a.example.com"}, of)
			c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
			for _, form := range forms {
				for _, rest := range []string{"", "/", "/x", "/X", "/X/", "x", "/%58", "/x%20y", "%20/users/get"} {
					got, understood := c.ask(t, routes.Request{Host: "a.example.com", Method: http.MethodGet}, form+rest)
					if want := want(vhosts, understood); got != want {
						t.Errorf("%s%s: rule %q, want %q", form, rest, got, want)
					}
				}
			}
		})
	}
}
