package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// twoTeams returns a table with routes of two teams at the ports 80 and 8080 of a Gateway. Both teams have objects
// below /shared, but on different hosts.
func twoTeams() routes.Table {
	at := func(prefix string) []routes.Match { return []routes.Match{{Path: routes.Path{Value: prefix}}} }
	to := func(port int32) []routes.Backend {
		return []routes.Backend{{Name: fmt.Sprint("backend:", port), Host: "127.0.0.1", Port: port, Weight: 1}}
	}
	uneven := []routes.Backend{{Name: "all", Host: "127.0.0.1", Port: 9001, Weight: 1000000}}
	for i := range 15 { // each has less than a hundredth of a percent
		uneven = append(uneven, routes.Backend{Name: fmt.Sprint(i), Host: "127.0.0.1", Port: 9002, Weight: 1})
	}
	attached := []routes.Attachment{
		{Route: "red/site", Hosts: []routes.Host{"red.example.com", "*.example.com"}},
		{Route: "blue/site", Hosts: []routes.Host{"blue.example.com"}},
	}
	return routes.Table{
		Listeners: []routes.Listener{
			{Gateway: "edge/main", Name: "http", Port: 80, PodPort: 20000, Attached: attached},
			{Gateway: "edge/main", Name: "more", Port: 8080, PodPort: 20001, Attached: attached},
		},
		Routes: []routes.Route{
			{Namespace: "red", Name: "site", Site: "111111111111.11111111.site", Rules: []routes.Rule{
				{Matches: at("/"), Backends: to(9001)},
				{
					Matches: []routes.Match{{
						Path: routes.Path{Value: "/"}, Headers: []routes.Pair{{Name: "x-version", Value: "2"}},
					}},
					Backends: to(9002),
				},
				{Matches: at("/uneven"), Backends: uneven},
				{Matches: at("/old"), Redirect: &routes.Redirect{Status: 301, Host: "new.example.com"}},
				{Matches: at("/to-80"), Redirect: &routes.Redirect{Status: 302, Port: 80}},
				{Matches: at("/to-443"), Redirect: &routes.Redirect{Status: 302, Port: 443}},
				{Matches: at("/secure"), Redirect: &routes.Redirect{Status: 302, Scheme: "https"}},
				{Matches: at("/broken"), Backends: []routes.Backend{{Name: "none", Weight: 1}}},
				{
					Matches: at("/both"),
					Backends: []routes.Backend{
						{Name: "a", Host: "127.0.0.1", Port: 9001, Weight: 1}, {Name: "b", Host: "127.0.0.1", Port: 9002, Weight: 1},
					},
				},
			}},
			{Namespace: "blue", Name: "site", Site: "222222222222.22222222.site", Rules: []routes.Rule{
				{Matches: at("/shared"), Backends: to(9002)},
			}},
		},
	}
}

// startRoutes starts an nginx with the routes of two teams. Their backends answer with their own port, the host that
// they got, and the path.
func startRoutes(t *testing.T, yaml string, changes ...func(*cache.Input)) *nginxtest.Nginx {
	t.Helper()
	in := decode(t, []byte(yaml))
	in.Routes = twoTeams()
	for _, change := range changes {
		change(&in)
	}
	config, err := cache.Render(in)
	must(t, err)
	n := nginxtest.New(t)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	for _, port := range []int{9000, 9001, 9002} {
		n.Serve(fmt.Sprintf("127.0.0.1:%d", port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, "fresh") {
				_, _ = fmt.Fprintf(w, "%d %s%s %s", port, r.Host, r.URL.Path, r.Header.Get("X-Cachenode-Route"))
				return
			}
			w.Header().Set("Cache-Control", "max-age=600")
			_, _ = fmt.Fprintf(w, "%d %s%s", port, r.Host, r.URL.Path)
		}))
	}
	n.Start()
	return n
}

// TestRoutes checks which backend gets a request at the port of a listener, and what is stored.
func TestRoutes(t *testing.T) {
	t.Parallel()
	n := startRoutes(t, threeDisks)
	client := n.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	get := func(port int, host, path string, headers ...string) string {
		request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		must(t, err)
		request.Host = host
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		r, err := client.Do(request)
		must(t, err)
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		must(t, err)
		if r.StatusCode != http.StatusOK {
			return fmt.Sprint(r.StatusCode, r.Header.Get("Location"))
		}
		return r.Header.Get("X-Cache") + " " + string(body)
	}
	const red, blue, wild = "red.example.com", "blue.example.com", "other.example.com"
	for i, tt := range []struct{ got, want string }{
		{get(20000, red, "/a"), "MISS 9001 red.example.com/a "},
		{get(20000, red, "/a"), "MISS 9001 red.example.com/a "}, // the backend did not mark it as fresh
		{get(20000, red, "/fresh"), "MISS 9001 red.example.com/fresh"},
		{get(20000, red, "/fresh"), "HIT 9001 red.example.com/fresh"},
		{get(20000, "RED.example.com", "/fresh"), "HIT 9001 red.example.com/fresh"},
		{get(20000, red, "/fresh", "X-Version", "2"), "MISS 9002 red.example.com/fresh"},
		{get(20000, red, "/fresh", "X-Version", "2"), "HIT 9002 red.example.com/fresh"},
		{get(20000, red, "/fresh", "X-Version", "3"), "HIT 9001 red.example.com/fresh"},
		{get(20001, "red.example.com:8080", "/fresh"), "MISS 9001 red.example.com:8080/fresh"},
		{get(20001, "red.example.com:8080", "/fresh"), "HIT 9001 red.example.com:8080/fresh"},
		{get(20001, red, "/fresh"), "BYPASS 9001 red.example.com/fresh"},
		{get(20000, "red.example.com:99", "/fresh"), "BYPASS 9001 red.example.com:99/fresh"},
		{get(20000, blue, "/shared/fresh"), "MISS 9002 blue.example.com/shared/fresh"},
		{get(20000, blue, "/shared/fresh"), "HIT 9002 blue.example.com/shared/fresh"},
		{get(20000, blue, "/fresh"), "MISS 9001 blue.example.com/fresh"}, // red's wildcard
		{get(20000, wild, "/shared/fresh"), "MISS 9001 other.example.com/shared/fresh"},
		{get(20000, "elsewhere", "/"), "404"},
		{get(20000, red, "/broken"), "500"},
		{strings.Fields(get(20000, red, "/uneven"))[0], "MISS"},
		{get(20000, red, "/old/a?b=c"), "301http://new.example.com/old/a?b=c"},
		{get(20001, "red.example.com:8080", "/old/a"), "301http://new.example.com:8080/old/a"},
		{get(20001, "red.example.com:8080", "/secure"), "302https://red.example.com/secure"},
		{get(20001, "red.example.com:8080", "/to-80"), "302http://red.example.com/to-80"},
		{get(20001, "red.example.com:8080", "/to-443"), "302http://red.example.com:443/to-443"},
		{get(20000, "elsewhere", "/", "X-CacheNode-Route", "x"), "404"},
		{get(8080, "www.example.com", "/fresh"), "MISS 9000 www.example.com/fresh"}, // the CacheNode's own site
		{get(8080, "www.example.com", "/fresh", "X-CacheNode-Route", "x"), "HIT 9000 www.example.com/fresh"},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i, diff)
		}
	}
	for _, key := range []string{
		"http://red.example.com/fresh", "http://red.example.com:8080/fresh", // as "kubectl cachenode explain" shows them
	} {
		if n := len(n.Cached("site=111111111111.11111111.site "+key, "disk1", "disk2", "disk3")); n != 1 {
			t.Errorf("%d files have the key of %s, want 1", n, key)
		}
	}
	answered := map[string]int{}
	for range 100 {
		answered[strings.Fields(get(20000, red, "/both/fresh"))[1]]++
	}
	if answered["9001"] < 20 || answered["9002"] < 20 {
		t.Errorf("requests by backend: %v", answered)
	}
}

// TestRoutesAlone checks a CacheNode without an origin of its own. Its own port answers 404, and the routes are served.
func TestRoutesAlone(t *testing.T) {
	t.Parallel()
	for name, tier := range map[string]string{"disks alone": "", "a memory tier": nginxtest.MemoryTier("")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startRoutes(t, threeDisks+tier, func(in *cache.Input) { in.Spec.Origin = v1alpha1.Origin{} })
			for address, want := range map[string]string{
				"http://127.0.0.1:8080/": "404 ", "http://127.0.0.1:20000/fresh": "200 9001 red.example.com/fresh",
			} {
				request, err := http.NewRequest(http.MethodGet, address, nil)
				must(t, err)
				request.Host = "red.example.com"
				r, err := n.Client().Do(request)
				must(t, err)
				body, err := io.ReadAll(r.Body)
				must(t, err)
				must(t, r.Body.Close())
				if r.StatusCode == http.StatusNotFound {
					body = nil
				}
				if got := fmt.Sprintf("%d %s", r.StatusCode, body); got != want {
					t.Errorf("%s: %s, want %s", address, got, want)
				}
			}
		})
	}
}

// TestUpstreamsOfTeams checks that two backends have two upstreams, although the hashes of their names begin with the
// same 32 bits. A team can find such a name for the backend of another team.
func TestUpstreamsOfTeams(t *testing.T) {
	t.Parallel()
	in := decode(t, []byte(sharded("")))
	in.Routes = twoTeams()
	hosts := []string{"red80599.red.svc.cluster.local", "blue114855.blue.svc.cluster.local"}
	for i, host := range hosts {
		rule := &in.Routes.Routes[i].Rules[0]
		rule.Backends = []routes.Backend{{Name: host, Host: host, Port: 80, Weight: 1}}
	}
	config, err := cache.Render(in)
	must(t, err)
	for _, host := range hosts {
		if want := "server " + host + ":80 "; !strings.Contains(config.Text, want) {
			t.Errorf("no upstream has %q", want)
		}
	}
}
