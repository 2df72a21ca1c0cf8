package routemap_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// planned returns the number of maps that a plan counts for the routes of a table.
func planned(t routes.Table) (maps int) {
	plan := routemap.NewPlan()
	for _, r := range t.Routes {
		of := map[routemap.Authority]bool{}
		for _, l := range t.Listeners {
			for _, a := range l.Attached {
				for _, h := range a.Hosts {
					if a.Route == r.ID() {
						of[routemap.Authority{Port: l.PodPort, Host: h}] = true
					}
				}
			}
		}
		maps += plan.Add(r, of)
	}
	return maps
}

// listed matches the maps that are not shared by all virtual hosts.
var listed = regexp.MustCompile(`(?m)^\s*map \S+ \$route_\d+ \{`)

// written returns the maps of a table as nginx reads them.
func written(t *testing.T, table routes.Table) string {
	t.Helper()
	text, err := conf.Write(routemap.Maps(table, value))
	must(t, err)
	return text
}

// colliding returns paths with a common beginning whose keys have the same remainder as another key.
func colliding(count int, authority, begin, key string) (paths []string) {
	const lists = 10007 // of nginx
	for i := 0; len(paths) < count; i++ {
		path := fmt.Sprintf("%s%d/%x", begin, len(paths), i)
		if routemap.Hash(authority+path)%lists == routemap.Hash(key)%lists {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestMapsAreCounted checks that the plan counts all maps that a table needs, also if its author tries to prevent it.
func TestMapsAreCounted(t *testing.T) {
	t.Parallel()
	const first = "a.example.com"
	each := func(n int, format string) (paths []string) {
		for i := range n {
			paths = append(paths, fmt.Sprintf(format, i))
		}
		return paths
	}
	with := func(t routes.Table, host string, paths ...string) routes.Table {
		more := tableOf([]string{host}, paths)
		more.Routes[0].Name = "more"
		t.Routes = append(t.Routes, more.Routes[0])
		t.Listeners[0].Attached = append(t.Listeners[0].Attached, routes.Attachment{
			Route: "team/more", Hosts: []routes.Host{routes.Host(host)},
		})
		return t
	}
	of := func(paths ...string) routes.Table { return tableOf([]string{first}, paths) }
	conditional := of(each(20, "/s%d")...)
	for i := range conditional.Routes[0].Rules {
		conditional.Routes[0].Rules[i].Matches[0].Method = "GET"
	}
	for name, tt := range map[string]struct {
		table routes.Table
		want  int
	}{
		// The route for *.example.com of each table counts as one.
		"keys":              {of(each(20, "/s%d/A")...), 1},
		"methods":           {conditional, 21},
		"unusual":           {of(each(20, "/s%d/a b")...), 21},
		"unusual, one path": {of(each(20, "/a b/%d")...), 2},
		"too many segments": {of(each(20, "/s%d/2/3/4/5/6/7/8/9")...), 21},
		"letters":           {with(of(each(20, "/s%d/Ab")...), first, each(20, "/s%d/aB/c")...), 21},
		"remainders":        {of(colliding(130, first+":20000", "/s", "x")...), 31},
		"a wildcard":        {with(of("/a"), "*.a.example.com", each(8, "/s%d")...), 2},
		"a large wildcard":  {with(of("/a"), "*.example.com", each(1000, "/s%d/A")...), 67},
	} {
		found := len(listed.FindAllString(written(t, tt.table), -1))
		if got := planned(tt.table); got != tt.want || found > got {
			t.Errorf("%s: the plan counts %d maps, want %d; there are %d", name, got, tt.want, found)
		}
	}
	for seed := range uint64(20) {
		p := pick{rand.New(rand.NewPCG(seed, 1))}
		table := p.table(one(p, 4, 40, 400))
		if got, found := planned(table), len(listed.FindAllString(written(t, table), -1)); found > got {
			t.Errorf("seed %d: the plan counts %d maps, and there are %d", seed, got, found)
		}
	}
}

// TestNewerRoutes checks that no newer route takes keys of an older one.
func TestNewerRoutes(t *testing.T) {
	t.Parallel()
	table := tableOf([]string{"old.example.com"}, []string{"/api", "/api/v1", "/Shop", "/Shop/a", "/exact$"})
	rows := regexp.MustCompile(`(?m)^\s*"?old\.example\.com:20000!?/\S* `)
	older := rows.FindAllString(written(t, table), -1)
	add := func(host string, paths ...string) {
		r := tableOf([]string{host}, paths).Routes[0]
		r.Name = fmt.Sprint("new-", len(table.Routes))
		table.Routes = append(table.Routes, r)
		table.Listeners[0].Attached = append(table.Listeners[0].Attached, routes.Attachment{
			Route: r.ID(), Hosts: []routes.Host{routes.Host(host)},
		})
	}
	add("new.example.com", colliding(200, "new.example.com:20000", "/longer", "old.example.com:20000/api")...)
	add("new.example.com", colliding(200, "new.example.com:20000", "/longer/", "old.example.com:20000/api/v1")...)
	add("old.example.com", "/sHop/longer", "/sHOP/longer")
	newer := rows.FindAllString(written(t, table), -1)
	if lost := slices.DeleteFunc(older, func(row string) bool { return slices.Contains(newer, row) }); len(lost) > 0 {
		t.Errorf("newer routes took the keys %q", lost)
	}
	c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
	for _, path := range []string{"/api/x", "/api/v1/x", "/Shop/a", "/sHop/longer/x", "/sHOP/longer", "/shop", "/exact"} {
		got, understood := c.ask(t, routes.Request{Host: "old.example.com", Method: "GET"}, path)
		if want := want(vhosts, understood); got != want {
			t.Errorf("%s: rule %q, want %q", path, got, want)
		}
	}
}

// TestUndo checks that a route that is removed leaves nothing in the plan.
func TestUndo(t *testing.T) {
	t.Parallel()
	var with, without []int
	for seed := range uint64(20) {
		p := pick{rand.New(rand.NewPCG(seed, 2))}
		table, removed := p.table(400), p.table(400)
		plain, undone := routemap.NewPlan(), routemap.NewPlan()
		of := map[routemap.Authority]bool{{Port: 1, Host: "a.com"}: true, {Port: 1, Host: "*.com"}: true}
		for i, r := range table.Routes {
			with = append(with, plain.Add(r, of))
			if undone.Add(removed.Routes[i], of) == 0 {
				t.Errorf("seed %d: a route without maps", seed)
			}
			undone.Undo()
			without = append(without, undone.Add(r, of))
		}
	}
	if diff := cmp.Diff(with, without); diff != "" {
		t.Error(diff)
	}
	plan, of := routemap.NewPlan(), map[routemap.Authority]bool{{Port: 1, Host: "a.com"}: true}
	for range 2 { // keys with the same remainder, of which 100 have room
		r := tableOf([]string{"a.com"}, colliding(130, "a.com:1", "/s", "x")).Routes[0]
		if got := plan.Add(r, of); got != 30 {
			t.Errorf("%d maps, want 30", got)
		}
		plan.Undo()
	}
}
