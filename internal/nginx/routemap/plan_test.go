package routemap_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// planned returns a table with the paths that are no keys according to a plan, and the number of maps in the plan.
func planned(t routes.Table) (with routes.Table, maps int) {
	plan := routemap.NewPlan()
	t.Unkeyed = nil
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
		added := plan.Add(r, of)
		maps, t.Unkeyed = maps+added.Maps, append(t.Unkeyed, added.Unkeyed...)
	}
	return t, maps
}

// listed matches the maps that are not shared by all virtual hosts.
var listed = regexp.MustCompile(`(?m)^\s*map .+ \$route_(conditions_)?\d+ \{`)

// written returns the maps of a table as nginx reads them.
func written(t *testing.T, table routes.Table) string {
	t.Helper()
	table, _ = planned(table)
	text, err := conf.Write(routemap.Maps(table, value))
	must(t, err)
	return text
}

// colliding returns paths whose keys have the same remainder as another key. The format has a place for two numbers.
func colliding(count int, authority, format, key string) (paths []string) {
	const lists = 10007 // of nginx
	for i := 0; len(paths) < count; i++ {
		path := fmt.Sprintf(format, len(paths), i)
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
		"remainders":        {of(colliding(130, first+":20000", "/s%d/%x", "x")...), 31},
		"a wildcard":        {with(of("/a"), "*.a.example.com", each(8, "/s%d")...), 2},
		"a large wildcard":  {with(of("/a"), "*.example.com", each(1000, "/s%d/A")...), 67},
	} {
		table, got := planned(tt.table)
		if found := len(listed.FindAllString(written(t, table), -1)); got != tt.want || found > got {
			t.Errorf("%s: the plan counts %d maps, want %d; there are %d", name, got, tt.want, found)
		}
	}
	for seed := range uint64(20) {
		p := pick{rand.New(rand.NewPCG(seed, 1))}
		table, got := planned(p.table(one(p, 4, 40, 400)))
		if found := len(listed.FindAllString(written(t, table), -1)); found > got {
			t.Errorf("seed %d: the plan counts %d maps, and there are %d", seed, got, found)
		}
	}
}

// TestReducedTable checks that a table without some of its listeners or routes does not need more maps.
func TestReducedTable(t *testing.T) {
	t.Parallel()
	table := tableOf([]string{"y.com"}, colliding(100, "y.com:20000", "/%d-%x", "x"))
	for i := range table.Routes[0].Rules { // these paths get no keys, so one list contains them
		path := &table.Routes[0].Rules[i].Matches[0].Path
		path.Value += fmt.Sprint("/", i)
		table.Routes[0].Rules[i].Matches[0].Method = "GET"
	}
	older := tableOf([]string{"x.com"}, colliding(100, "x.com:20001", "/%d-%x", "x")).Routes[0]
	older.Name = "older"
	table.Routes = append([]routes.Route{older}, table.Routes...)
	table.Listeners = append(table.Listeners, routes.Listener{
		PodPort: secondPort, Certificate: "c",
		Attached: []routes.Attachment{{Route: older.ID(), Hosts: []routes.Host{"x.com"}}},
	})
	table, want := planned(table)
	for name, reduced := range map[string]routes.Table{
		"whole":                table,
		"without certificates": table.WithoutCertificates(func(string) bool { return true }),
		"without a route":      table.Without(map[string]bool{older.ID(): true}),
	} {
		text, err := conf.Write(routemap.Maps(reduced, value))
		must(t, err)
		if found := len(listed.FindAllString(text, -1)); found > want {
			t.Errorf("%s: %d maps, and the plan counts %d", name, found, want)
		}
	}
}

// TestListsAreShort checks that requests that fall through to a large wildcard are not compared with all of its paths.
func TestListsAreShort(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("/api/v1/items/p%d", i))
	}
	table := tableOf([]string{"*.example.com"}, paths)
	shop := tableOf([]string{"shop.example.com"}, []string{"/shop"}).Routes[0]
	shop.Name = "shop"
	table.Routes = append(table.Routes, shop)
	table.Listeners[0].Attached = append(table.Listeners[0].Attached, routes.Attachment{
		Route: shop.ID(), Hosts: []routes.Host{"shop.example.com"},
	})
	longest := 0
	for m := range strings.SplitSeq(written(t, table), "map ") {
		longest = max(longest, strings.Count(m, "\n    \"~^")+strings.Count(m, "\n    ~^"))
	}
	if longest > 40 || longest < 20 {
		t.Errorf("a list contains %d paths", longest)
	}
	c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
	for i := range 1000 {
		uri := fmt.Sprintf("/api/v1/items/p%d/x", i)
		got, understood := c.ask(t, routes.Request{Host: "shop.example.com", Method: "GET"}, uri)
		if want := want(vhosts, understood); got != want {
			t.Errorf("%s: rule %q, want %q", uri, got, want)
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
	add("new.example.com", colliding(200, "new.example.com:20000", "/longer%d/%x", "old.example.com:20000/api")...)
	add("new.example.com", colliding(200, "new.example.com:20000", "/longer/%d/%x", "old.example.com:20000/api/v1")...)
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
	var with, without []routemap.Added
	for seed := range uint64(20) {
		p := pick{rand.New(rand.NewPCG(seed, 2))}
		table, removed := p.table(400), p.table(400)
		plain, undone := routemap.NewPlan(), routemap.NewPlan()
		of := map[routemap.Authority]bool{{Port: 1, Host: "a.com"}: true, {Port: 1, Host: "*.com"}: true}
		for i, r := range table.Routes {
			with = append(with, plain.Add(r, of))
			if undone.Add(removed.Routes[i], of).Maps == 0 {
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
		r := tableOf([]string{"a.com"}, colliding(130, "a.com:1", "/s%d/%x", "x")).Routes[0]
		if got := plan.Add(r, of); got.Maps != 30 || len(got.Unkeyed) != 30 {
			t.Errorf("%d maps and %d paths without a key, want 30", got.Maps, len(got.Unkeyed))
		}
		plan.Undo()
	}
}
