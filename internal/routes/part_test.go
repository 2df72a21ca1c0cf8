package routes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// oneListener returns a table with routes at one listener. hosts are the hosts of each route.
func oneListener(hosts map[string]routes.Host, list ...routes.Route) routes.Table {
	l := routes.Listener{Gateway: "edge/main", Name: "http", Port: 80, PodPort: 20000}
	for _, r := range list {
		l.Attached = append(l.Attached, routes.Attachment{Route: r.ID(), Hosts: []routes.Host{hosts[r.Name]}})
	}
	return routes.Table{Listeners: []routes.Listener{l}, Routes: list}
}

// TestChanged checks which routes count as changed, that exactly these have another fingerprint, and that a table
// without them does not contain them.
func TestChanged(t *testing.T) {
	t.Parallel()
	at := func(path string) []routes.Rule {
		return []routes.Rule{{Matches: []routes.Match{{Path: routes.Path{Value: path}}}}}
	}
	hosts := map[string]routes.Host{"a": "a.com", "b": "b.com", "c": "c.com"}
	a := routes.Route{Namespace: "x", Name: "a", Rules: at("/")}
	b := routes.Route{Namespace: "x", Name: "b", Rules: at("/")}
	edited, c := b, routes.Route{Namespace: "x", Name: "c"}
	edited.Rules = at("/edited")
	before := oneListener(hosts, a, b)
	for name, tt := range map[string]struct {
		now  routes.Table
		want []string
	}{
		"nothing":       {oneListener(hosts, a, b), nil},
		"a rule":        {oneListener(hosts, a, edited), []string{"x/b"}},
		"a host":        {oneListener(map[string]routes.Host{"a": "new.com", "b": "b.com"}, a, b), []string{"x/a"}},
		"a new route":   {oneListener(hosts, a, b, c), []string{"x/c"}},
		"a route fewer": {oneListener(hosts, b), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.now.Changed(before)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("changed (-want +got)\n%s", diff)
			}
			changed := map[string]bool{}
			for _, id := range got {
				changed[id] = true
			}
			rest := tt.now.Without(changed)
			for _, r := range tt.now.Routes {
				id := r.ID()
				if isSame := tt.now.Fingerprint(id) == before.Fingerprint(id); isSame == changed[id] {
					t.Errorf("%s: same fingerprint: %t", id, isSame)
				}
				if found := rest.Route(id) != nil; found == changed[id] {
					t.Errorf("%s is in the table without the changed routes: %t", id, found)
				}
			}
			if n := len(rest.Listeners[0].Attached); n != len(tt.now.Routes)-len(got) {
				t.Errorf("%d routes are attached", n)
			}
		})
	}
	if before.Fingerprint("x/none") != "" || before.Route("x/none") != nil {
		t.Error("there is a route that the table does not contain")
	}
}
