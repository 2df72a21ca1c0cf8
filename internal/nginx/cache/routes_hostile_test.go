package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// hostile writes HTTPRoutes whose texts are words of nginx's configuration, or parts of it. It uses all characters that
// the schemas of the Gateway API allow.
type hostile struct{ *rand.Rand }

func oneIn(h hostile, list ...string) string { return list[h.IntN(len(list))] }

func (h hostile) host() gw.Hostname {
	return gw.Hostname(oneIn(h, "default", "include", "volatile", "hostnames", "map", "server", "return",
		"*.default", "*.include.com", "a.default", "evil.example.com", "*.evil.com", "xn--default-a.com"))
}

// path returns a path. Its schema allows pchar of RFC 3986, with percent-encoded bytes.
func (h hostile) path() string {
	return "/" + oneIn(h, "default", "include", ";", "%3B%7D", "$host", "%24uri", "%22", "%5C", "%5C%22", "'", "(a|b)",
		"(?i)a",
		"a*", "a+", "~a", "%0a", "%0d%0aX-Evil:1", "%7B1%7D", "%5Ba%5D", "a.b", "%23", "%20", "%ff", "volatile", "\\z"[1:],
		"%5Cz",
		"hostnames", "@named", "=exact", "!", "%C3%A9", "a$", "%5E", "%7C", "%00") + oneIn(h, "", "/a", "/include", ";x=1")
}

// value returns a value of a header or an argument. Their schemas allow any text.
func (h hostile) value() string {
	return oneIn(h, "default", "include", `"`,
		`\`, `\"`, ";", "}", "{", "$host", "${uri}", "~^", "'", "a b", "\n", "\r\nX-Evil: 1",
		"\t", "\x01", "é", "#", `"; } server { listen 1; } #`, "(?<name>a)", `\E`, `\Q`, "[", "1", "volatile", "$",
		`a\`, "a\"b")
}

func (h hostile) name() gw.HTTPHeaderName {
	return gw.HTTPHeaderName(oneIn(h, "X-A", "default", "Host", "X-CacheNode-Route", "X-Accel-Redirect", "a.b", "$host",
		"a'b", "a|b",
		"Cookie", "Range", "Content-Length", "Connection", "x_y", "Transfer-Encoding"))
}

func (h hostile) route(i int) gw.HTTPRoute {
	r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: "evil", Name: fmt.Sprint("evil-", i), UID: types.UID(fmt.Sprintf("%08d", i)),
	}}
	r.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
	r.Spec.Hostnames = []gw.Hostname{h.host(), h.host()}
	for range 1 + h.IntN(3) {
		kind, path, port := gw.PathMatchPathPrefix, h.path(), gw.PortNumber(9002)
		if h.IntN(2) == 0 {
			kind = gw.PathMatchExact
		}
		match := gw.HTTPRouteMatch{Path: &gw.HTTPPathMatch{Type: &kind, Value: &path}}
		if h.IntN(2) == 0 {
			match.Headers = []gw.HTTPHeaderMatch{{Name: h.name(), Value: h.value()}}
		}
		if h.IntN(2) == 0 {
			match.QueryParams = []gw.HTTPQueryParamMatch{{Name: h.name(), Value: h.value()}}
		}
		ref := gw.HTTPBackendRef{}
		ref.Name, ref.Port = "web", &port
		rule := gw.HTTPRouteRule{Matches: []gw.HTTPRouteMatch{match}, BackendRefs: []gw.HTTPBackendRef{ref}}
		if h.IntN(3) == 0 {
			rule.Filters = []gw.HTTPRouteFilter{{
				Type: gw.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: &gw.HTTPHeaderFilter{
					Set:    []gw.HTTPHeader{{Name: h.name(), Value: h.value()}},
					Add:    []gw.HTTPHeader{{Name: "X-Added", Value: h.value()}},
					Remove: []string{string(h.name())},
				},
			}}
		}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return r
}

// hostileTable returns what the operator makes of hostile routes, and of a route of a victim.
func hostileTable(t *testing.T, h hostile, count int) routes.Table {
	t.Helper()
	all := gw.NamespacesFromAll
	gateway := gw.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "main"}}
	gateway.Spec.Listeners = []gw.Listener{{
		Name: "http", Port: 80, Protocol: gw.HTTPProtocolType,
		AllowedRoutes: &gw.AllowedRoutes{Namespaces: &gw.RouteNamespaces{From: &all}},
	}}
	port := gw.PortNumber(9001)
	victim := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "shop", UID: "11111111"}}
	victim.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
	victim.Spec.Hostnames = []gw.Hostname{"victim.example.com"}
	ref := gw.HTTPBackendRef{}
	ref.Name, ref.Port = "web", &port
	victim.Spec.Rules = []gw.HTTPRouteRule{{BackendRefs: []gw.HTTPBackendRef{ref}}}
	service := gateways.Service{Ports: map[int32]int32{9001: 9001, 9002: 9002}}
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	s := gateways.State{
		Fleet: gateways.Fleet{
			NamespacedName: name("edge", "edge"), Allowed: gw.RouteNamespaces{From: &all}, MaxRoutes: 1000,
			MaxRoutesPerNamespace: 1000, ClusterDomain: "cluster.local",
		},
		Gateways: []gw.Gateway{gateway}, HTTPRoutes: []gw.HTTPRoute{victim},
		Namespaces: map[string]gateways.Namespace{"victim": {UID: "aaaaaaaaaaaa"}, "evil": {UID: "bbbbbbbbbbbb"}},
		Services:   map[types.NamespacedName]gateways.Service{name("victim", "web"): service, name("evil", "web"): service},
		Ports:      map[gateways.Port]int32{{Gateway: name("edge", "main"), Number: 80}: 20000},
	}
	for i := range count {
		s.HTTPRoutes = append(s.HTTPRoutes, h.route(i))
	}
	table := gateways.Decide(s).Table
	for _, r := range table.Routes {
		for _, rule := range r.Rules {
			for i := range rule.Backends {
				rule.Backends[i].Host = "127.0.0.1"
			}
		}
	}
	return table
}

// TestHostileRoutes checks with the real nginx that no text of a route is more than text. Whatever the routes of a
// hostile team contain, nginx takes the configuration, each request gets the answer that the routes define, and the
// routes of another team are as before.
func TestHostileRoutes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := hostile{rand.New(rand.NewPCG(seed, 1))}
			table := hostileTable(t, h, 150)
			if len(table.Routes) < 50 {
				t.Fatalf("only %d hostile routes are accepted", len(table.Routes)-1)
			}
			in := decode(t, []byte(threeDisks))
			in.Routes = table
			config, err := cache.Render(in)
			must(t, err)
			n := nginxtest.New(t)
			n.Configure(config.Text, "disk1", "disk2", "disk3")
			n.Mkdir(layout.MemoryTierDir)
			for _, port := range []int{9001, 9002} {
				n.Serve(fmt.Sprintf("127.0.0.1:%d", port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("X-Evil") != "" {
						t.Errorf("a text became a header: %v", r.Header)
					}
					_, _ = fmt.Fprint(w, port)
				}))
			}
			n.Start()
			answered := map[string]int{}
			for range 300 {
				r, of := h.request(t)
				want := "404"
				if _, c := routes.Find(table.VirtualHosts(20000), of); c != nil {
					want = fmt.Sprint(table.Routes[c.Route].Rules[c.Rule].Backends[0].Port)
				}
				response, err := n.Client().Do(r)
				must(t, err)
				body, err := io.ReadAll(response.Body)
				must(t, err)
				must(t, response.Body.Close())
				got := string(body)
				if response.StatusCode != http.StatusOK {
					got = fmt.Sprint(response.StatusCode)
				}
				if got != want {
					t.Errorf("%s of %s, %v: %s, want %s", r.URL, r.Host, r.Header, got, want)
				}
				answered[want]++
			}
			t.Logf("%d routes; answers %v", len(table.Routes), answered)
			if answered["9001"] == 0 || answered["9002"] == 0 || answered["404"] == 0 {
				t.Errorf("some kind of answer never came: %v", answered)
			}
		})
	}
}

// request returns a request for a host and a path that a route may name, and the same request in the form that
// routes.Find accepts.
func (h hostile) request(t *testing.T) (*http.Request, routes.Request) {
	t.Helper()
	host := strings.TrimPrefix(string(h.host()), "*.")
	if h.IntN(3) == 0 {
		host = "sub." + host
	}
	path := h.path()
	for strings.Contains(path, "%00") || strings.Contains(path, "%0a") || strings.Contains(path, "%0d") {
		path = h.path() // nginx refuses some of these requests
	}
	if h.IntN(5) == 0 {
		host, path = "victim.example.com", "/any"
	}
	u, err := url.Parse("http://127.0.0.1:20000" + path)
	must(t, err)
	r, err := http.NewRequest(http.MethodGet, u.String(), nil)
	must(t, err)
	r.Host = host
	return r, routes.Request{
		Host: host, Method: http.MethodGet, Path: routes.NormalPath(u.Path), Headers: map[string]string{},
	}
}
