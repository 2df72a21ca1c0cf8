package gateways_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestRefused checks what takes the place of a route that nginx has refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	at := func(path string) string {
		return main + "---\n" + route("  rules: [{matches: [{path: {value: "+path+"}}]}]")
	}
	const id = "edge/shop"
	good := gateways.Decide(state(t, at("/good"))).Table
	bad := gateways.Decide(state(t, at("/bad"))).Table
	other := *good.Route(id)
	other.Site = "another"
	foreign := *good.Route(id)
	foreign.Rules = []routes.Rule{{
		Matches:  foreign.Rules[0].Matches,
		Backends: []routes.Backend{{Name: "team/web:80", Host: "web.team", Port: 80, Weight: 1}},
	}}
	for name, tt := range map[string]struct {
		now     string
		refused gateways.Refused
		path    string // of the route in the table; "" if it is not there
		status  []string
		isKept  bool
	}{
		"a route with a good form": {
			at("/bad"),
			gateways.Refused{Forms: forms(bad), Good: good.Route(id)},
			"/good",
			[]string{"HTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue"},
			true,
		},
		"a new route": {
			at("/bad"),
			gateways.Refused{Forms: forms(bad)},
			"",
			[]string{"HTTPRoute edge/shop, main: Accepted=False UnsupportedValue"},
			true,
		},
		"the good form is refused too": {
			at("/bad"),
			gateways.Refused{Forms: forms(bad, good), Good: good.Route(id)},
			"",
			[]string{"HTTPRoute edge/shop, main: Accepted=False UnsupportedValue"},
			true,
		},
		"the good form is of a deleted route": {
			at("/bad"),
			gateways.Refused{Forms: forms(bad), Good: &other},
			"",
			[]string{"HTTPRoute edge/shop, main: Accepted=False UnsupportedValue"},
			true,
		},
		"the grant for a backend of the good form was revoked": {
			at("/bad"),
			gateways.Refused{Forms: forms(bad), Good: &foreign},
			"",
			[]string{"HTTPRoute edge/shop, main: Accepted=False UnsupportedValue"},
			true,
		},
		"the good form has a backend with a grant": {
			at("/bad") + "\n---\nkind: ReferenceGrant\nmetadata: {name: web, namespace: team}\nspec: {from: [{group: " +
				"gateway.networking.k8s.io, kind: HTTPRoute, namespace: edge}], to: [{group: '', kind: Service}]}",
			gateways.Refused{Forms: forms(bad), Good: &foreign},
			"/good",
			[]string{"HTTPRoute edge/shop, main: PartiallyInvalid=True UnsupportedValue"},
			true,
		},
		"the route has changed": {
			at("/new"),
			gateways.Refused{Forms: forms(bad), Good: good.Route(id)},
			"/new",
			[]string{"HTTPRoute edge/shop, main:"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := state(t, tt.now)
			s.Refused = map[string]gateways.Refused{id: tt.refused}
			result := gateways.Decide(s)
			path := ""
			if r := result.Table.Route(id); r != nil {
				path = r.Rules[0].Matches[0].Path.Value
			}
			if path != tt.path {
				t.Errorf("the route has the path %q, want %q", path, tt.path)
			}
			lines := summary(result)
			if diff := cmp.Diff(tt.status, lines[slices.IndexFunc(lines, isRoute):]); diff != "" {
				t.Errorf("status (-want +got)\n%s", diff)
			}
			if _, kept := result.Refused[id]; kept != tt.isKept {
				t.Errorf("the refusal is kept: %t, want %t", kept, tt.isKept)
			}
		})
	}
}

func isRoute(line string) bool { return line[0] == 'H' }

// forms returns the fingerprints of the route edge/shop in tables.
func forms(tables ...routes.Table) map[string]bool {
	list := map[string]bool{}
	for _, t := range tables {
		list[t.Fingerprint("edge/shop")] = true
	}
	return list
}
