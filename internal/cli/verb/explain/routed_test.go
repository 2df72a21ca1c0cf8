package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// TestPlacesOf checks which objects a URL has if routes may answer it, with and without a site of the CacheNode's own.
func TestPlacesOf(t *testing.T) {
	t.Parallel()
	at := func(path string, backends ...string) routes.Rule {
		r := routes.Rule{Matches: []routes.Match{{Path: routes.Path{Value: path}}}}
		for _, b := range backends {
			r.Backends = append(r.Backends, routes.Backend{Name: b, Host: b, Port: 80, Weight: 1})
		}
		return r
	}
	moved, gone := at("/moved"), at("/gone", "gone:80")
	moved.Redirect, gone.Backends[0].Host = &routes.Redirect{}, ""
	table := routes.Table{
		Routes: []routes.Route{{
			Namespace: "team", Name: "shop", Site: "11.22.shop", Rules: []routes.Rule{
				at("/", "web:80"), at("/both", "a:80", "b:80"), at("/none"), moved, gone,
			},
		}},
	}
	attached := []routes.Attachment{{Route: "team/shop", Hosts: []routes.Host{"shop.example.com"}}}
	for i, port := range []int32{80, 8080} {
		table.Listeners = append(table.Listeners, routes.Listener{
			Gateway: "team/main", Port: port, PodPort: 20000 + int32(i), Attached: attached,
		})
	}
	const fleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 1Gi}]
  gateways: {}
`
	const shop = "site=11.22.shop "
	const own = "  origin: {servers: [{host: origin.example.com, port: 80}]}\n"
	for name, tt := range map[string]struct {
		spec, argument string
		want           []string // the key, and the route before a slash
		notes          string
	}{
		"a route": {"", "http://SHOP.example.com/a?b=c", []string{
			shop + "http://shop.example.com/a?b=c team",
		}, ""},
		"another port": {
			"", "http://shop.example.com:8080/a", []string{shop + "http://shop.example.com:8080/a team"}, "",
		},
		"a standard port": {"", "http://shop.example.com:80/a", []string{shop + "http://shop.example.com/a team"}, ""},
		"two backends": {"", "http://shop.example.com/both/", []string{
			"site=" + table.Routes[0].Choices(1, "")[0].Site + " http://shop.example.com/both/ team",
			"site=" + table.Routes[0].Choices(1, "")[1].Site + " http://shop.example.com/both/ team",
		}, ""},
		"no backend": {
			"", "http://shop.example.com/none", nil,
			"team/shop, rule 2, without a backend, of Gateway team/main answers the URL, and has no object",
		},
		"no backend, and the CacheNode's own site": {
			own, "http://shop.example.com/none",
			[]string{"http://shop.example.com/none "},
			"team/shop, rule 2, without a backend, of Gateway team/main answers the URL, and has no object",
		},
		"a redirect": {
			"", "http://shop.example.com/moved", nil,
			"team/shop, rule 3, a redirect, of Gateway team/main answers the URL, and has no object",
		},
		"a backend that cannot be used": {
			"", "http://shop.example.com/gone", nil,
			"team/shop, rule 4, backend gone:80, of Gateway team/main answers the URL with an error, and has no object",
		},
		"another host": {"", "http://elsewhere.example.com/", nil, ""},
		"no listener":  {"", "https://shop.example.com/", nil, ""},
		"a key":        {"", shop + "http://shop.example.com/a", []string{shop + "http://shop.example.com/a "}, ""},
		"a URL without a scheme": {
			"", "shop.example.com/a",
			[]string{"shop.example.com/a "},
			`"shop.example.com/a" is taken as a key: a URL begins with http:// or https://`,
		},
		"a broken URL": {"", "http://shop.example.com/%zz", nil, ""},
		"nothing":      {"", "", nil, ""},
		"another scheme": {
			"", "ftp://shop.example.com/a",
			[]string{"ftp://shop.example.com/a "},
			`"ftp://shop.example.com/a" is taken as a key: a URL begins with http:// or https://`,
		},
		"a route, and the CacheNode's own site": {own, "http://shop.example.com/a", []string{
			"http://shop.example.com/a ", shop + "http://shop.example.com/a team",
		}, ""},
		"the CacheNode's own site has other hosts": {
			own + "  hosts: [cdn.example.com]\n", "http://shop.example.com/a",
			[]string{shop + "http://shop.example.com/a team"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cacheNode, errs, err := schema.Decode([]byte(fleet + tt.spec))
			if err != nil || len(errs) > 0 {
				t.Fatal(err, errs)
			}
			places, notes, err := placesOf(cacheNode, table, "GET", tt.argument)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error: %v", err)
			}
			var got []string
			for _, p := range places {
				namespace, _, _ := strings.Cut(p.route, "/")
				got = append(got, p.key+" "+namespace)
			}
			if noted := strings.Join(notes, "\n"); noted != tt.notes {
				t.Errorf("notes are %q, want %q", noted, tt.notes)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
