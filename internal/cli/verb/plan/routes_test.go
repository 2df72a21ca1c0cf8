package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestChangesOf checks which routes count as changed, and of which the caches no longer find objects.
func TestChangesOf(t *testing.T) {
	t.Parallel()
	// table returns a table with one route, whose first rule has a backend and the given matches.
	table := func(uid, backend string, matches ...routes.Match) routes.Table {
		r := routes.Route{Namespace: "team", Name: "shop", Site: uid + ".shop", Rules: []routes.Rule{{
			Matches: matches, Backends: []routes.Backend{{Name: backend, Host: uid, Port: 80, Weight: 1}},
		}}}
		return routes.Table{
			Routes: []routes.Route{r}, Listeners: []routes.Listener{{
				Gateway: "team/main", Name: "http", Port: 80, PodPort: 20000,
				Attached: []routes.Attachment{{Route: r.ID(), Hosts: []routes.Host{"shop.example.com"}}},
			}},
		}
	}
	at := func(path, method string) routes.Match {
		return routes.Match{Path: routes.Path{Value: path}, Method: method}
	}
	before := table("1", "web:80", at("/", ""))
	two := table("1", "web:80", at("/", ""))
	two.Routes[0].Rules[0].Backends = append(two.Routes[0].Rules[0].Backends, routes.Backend{Name: "new:80", Weight: 1})
	on := func(port int32, hosts ...routes.Host) routes.Table {
		t := table("1", "web:80", at("/", ""))
		t.Listeners[0].Port, t.Listeners[0].Attached[0].Hosts = port, hosts
		return t
	}
	const id = "team/shop"
	update, losing := []routeChange{{id, routeUpdate, false}}, []routeChange{{id, routeUpdate, true}}
	for name, tt := range map[string]struct {
		before, next routes.Table
		isWhole      bool
		want         []routeChange
	}{
		"nothing, with other UIDs": {before, table("2", "web:80", at("/", "")), true, nil},
		"a new route":              {routes.Table{}, before, false, []routeChange{{id, routeCreate, false}}},
		"another path":             {before, table("1", "web:80", at("/a", "")), false, update},
		"another backend":          {before, table("1", "new:80", at("/", "")), false, update},
		"a condition":              {before, table("1", "web:80", at("/", "GET")), false, losing},
		"two backends":             {before, two, false, losing},
		"another host":             {before, on(80, "new.example.com"), false, losing},
		"one more host":            {before, on(80, "new.example.com", "shop.example.com"), false, update},
		"a wildcard":               {before, on(80, "*.example.com"), false, update},
		"another port":             {before, on(81, "shop.example.com"), false, losing},
		"a deleted route":          {before, routes.Table{}, true, []routeChange{{id, routeDelete, true}}},
		"some files":               {before, routes.Table{}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, changesOf(tt.before, tt.next, tt.isWhole)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestPlanBesidesRoutes checks that the routes that the pods serve do not look like an edit of the CacheNode.
func TestPlanBesidesRoutes(t *testing.T) {
	t.Parallel()
	cacheNode := read(t, three+"\n  gateways: {}")
	of := effective.Of(cacheNode, apart.tier)
	served, err := revision.Of(of, revision.Outside{ClusterDomain: "cluster.local", Routes: routes.Table{
		Listeners: []routes.Listener{{Gateway: "team/main", Name: "http", Port: 80, PodPort: 20000}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pods := running{tier: apart.tier, revision: &served}
	if pods.input, err = manifest.NewPodInput(of).Hash(); err != nil {
		t.Fatal(err)
	}
	r, err := compare(cacheNode, pods, cacheNode, nil)
	if err != nil || r.Outcome != nothing || r.Revision != "" || r.Pods.Reload {
		t.Errorf("%+v, %v", r, err)
	}
}
