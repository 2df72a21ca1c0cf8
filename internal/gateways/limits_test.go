package gateways_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// crowded returns a state in which some namespaces create many Gateways and routes, with random numbers of listeners,
// hosts and matches.
func crowded(r *rand.Rand) gateways.State {
	s := gateways.State{
		Fleet: gateways.Fleet{
			NamespacedName: name("edge", "fleet"), MaxRoutes: 2000, MaxRoutesPerNamespace: 200,
			Allowed: gw.RouteNamespaces{From: new(gw.NamespacesFromAll)},
		},
		Namespaces: map[string]gateways.Namespace{}, Ports: map[gateways.Port]int32{},
	}
	host := func(i int) gw.Hostname {
		return gw.Hostname(fmt.Sprintf("h%d.%s.example.com", i, strings.Repeat("x", r.IntN(60)+1)))
	}
	for n := range 6 {
		namespace := fmt.Sprintf("team-%d", n)
		s.Namespaces[namespace] = gateways.Namespace{UID: types.UID(fmt.Sprintf("%d2345678-abcd", n))}
		meta := func(i int) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("o%d", i), UID: types.UID(fmt.Sprintf("%08d", i)),
				CreationTimestamp: metav1.Unix(int64(r.IntN(1000)), 0),
			}
		}
		var parents []gw.ParentReference
		for i := range 8 {
			g := gw.Gateway{ObjectMeta: meta(i)}
			for j := range r.IntN(64) + 1 {
				l := gw.Listener{Name: gw.SectionName(fmt.Sprintf("l%d", j)), Port: 80, Protocol: gw.HTTPProtocolType}
				if j > 0 {
					l.Hostname = new(host(j))
				}
				g.Spec.Listeners = append(g.Spec.Listeners, l)
			}
			s.Gateways = append(s.Gateways, g)
			s.Ports[gateways.Port{Gateway: name(namespace, g.Name), Number: 80}] = int32(20000 + 8*n + i)
			parents = append(parents, gw.ParentReference{Name: gw.ObjectName(g.Name)})
		}
		for i := range r.IntN(60) + 1 {
			route := gw.HTTPRoute{ObjectMeta: meta(i)}
			route.Spec.ParentRefs = parents[:r.IntN(len(parents))+1]
			for j := range r.IntN(16) {
				route.Spec.Hostnames = append(route.Spec.Hostnames, host(j))
			}
			for range r.IntN(16) + 1 {
				path := []string{"/", "/P/", "/%20/", "/a/b/c/d/e/f/g/h/"}[r.IntN(4)] + strings.Repeat("p", r.IntN(500))
				match := gw.HTTPRouteMatch{Path: &gw.HTTPPathMatch{Value: &path}}
				route.Spec.Rules = append(route.Spec.Rules, gw.HTTPRouteRule{Matches: slices.Repeat(
					[]gw.HTTPRouteMatch{match}, r.IntN(8)+1)})
			}
			s.HTTPRoutes = append(s.HTTPRoutes, route)
		}
	}
	return s
}

// TestTableIsBounded checks that no set of Gateways and routes makes a table that a ConfigMap cannot contain twice, or
// rows of nginx's maps that are larger than the limit. It also checks that the order in which objects are read does not
// matter.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	const maxPacked, maxRows = 440 << 10, 6 << 20
	largest, most, refused := 0, 0, 0
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := crowded(r)
		got := gateways.Decide(s)
		packed, rows := packedSize(t, got.Table), rowsOf(got.Table)
		largest, most = max(largest, packed), max(most, rows)
		refused += len(s.HTTPRoutes) - len(got.Table.Routes)
		if packed > maxPacked || rows > maxRows {
			t.Errorf("seed %d: the table has %d bytes compressed, and its rows have %d bytes", seed, packed, rows)
		}
		r.Shuffle(len(s.Gateways), func(i, j int) { s.Gateways[i], s.Gateways[j] = s.Gateways[j], s.Gateways[i] })
		r.Shuffle(len(s.HTTPRoutes), func(i, j int) { s.HTTPRoutes[i], s.HTTPRoutes[j] = s.HTTPRoutes[j], s.HTTPRoutes[i] })
		again := gateways.Decide(s)
		if !reflect.DeepEqual(got.Table, again.Table) || !reflect.DeepEqual(got.Gateways, again.Gateways) ||
			!reflect.DeepEqual(got.Parents, again.Parents) || !reflect.DeepEqual(got.Certificates, again.Certificates) {
			t.Errorf("seed %d: another order; tables (-want +got):\n%.2000s", seed, cmp.Diff(got.Table, again.Table))
		}
	}
	// Without these, the test could pass because its tables are small.
	if refused == 0 || largest < maxPacked/2 && most < maxRows/2 {
		t.Errorf("at most %d bytes compressed and %d bytes of rows, %d routes were refused", largest, most, refused)
	}
}

// packedSize returns the size of a table in a ConfigMap.
func packedSize(t *testing.T, table routes.Table) int {
	t.Helper()
	text, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := agentapi.Pack(string(text))
	return len(stored)
}

// rowsOf returns the size of the rows that nginx's maps have for the matches of a table.
func rowsOf(table routes.Table) (bytes int) {
	ports := map[int32]bool{}
	for _, l := range table.Listeners {
		ports[l.PodPort] = true
	}
	for port := range ports {
		for _, host := range table.VirtualHosts(port) {
			for _, c := range host.Candidates {
				bytes += len(c.Path.Value) + 100
			}
		}
	}
	return bytes
}

// TestManyRoutes checks that 2,000 usual routes of ten teams have room, also if their names and paths are random.
func TestManyRoutes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		text := make([]byte, 12)
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(36)]
		}
		return string(text)
	}
	s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, "+
		"allowedRoutes: {namespaces: {from: All}}}]}")
	s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 2000, 200
	for i := range 2000 {
		namespace := fmt.Sprintf("team-%d", i%10)
		s.Namespaces[namespace] = gateways.Namespace{UID: types.UID(fmt.Sprintf("0a1b2c3d%d", i%10))}
		route := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "shop-" + random(), UID: types.UID(random()),
		}}
		route.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
		route.Spec.Hostnames = []gw.Hostname{gw.Hostname(random() + ".example.com")}
		for range 2 {
			service, port := name(namespace, random()), gw.PortNumber(80)
			s.Services[service] = gateways.Service{Ports: map[int32]int32{80: 80}}
			ref := gw.HTTPBackendRef{}
			ref.Name, ref.Port = gw.ObjectName(service.Name), &port
			path := gw.HTTPPathMatch{Value: new("/" + random())}
			route.Spec.Rules = append(route.Spec.Rules, gw.HTTPRouteRule{
				Matches: []gw.HTTPRouteMatch{{Path: &path}}, BackendRefs: []gw.HTTPBackendRef{ref},
			})
		}
		s.HTTPRoutes = append(s.HTTPRoutes, route)
	}
	got := gateways.Decide(s)
	t.Logf("%d routes have %d bytes compressed", len(got.Table.Routes), packedSize(t, got.Table))
	if len(got.Table.Routes) != 2000 {
		for _, p := range got.Problems()[:1] {
			t.Errorf("%d routes are attached; %s: %s", len(got.Table.Routes), p.Object, p.Text)
		}
	}
}

// TestRoomForMaps checks that one team cannot make all requests expensive by matches that keys of maps cannot compare.
func TestRoomForMaps(t *testing.T) {
	t.Parallel()
	get := gw.HTTPMethodGet
	const anyHost = "h%d.example.com"
	for name, tt := range map[string]struct {
		host  string
		match func(i int) gw.HTTPRouteMatch
		want  int
	}{
		"methods": {anyHost, func(i int) gw.HTTPRouteMatch {
			return gw.HTTPRouteMatch{Path: at(fmt.Sprint("/p-", i)).Path, Method: &get}
		}, 64},
		"methods of one path": {anyHost, func(int) gw.HTTPRouteMatch { return gw.HTTPRouteMatch{Method: &get} }, 150},
		"paths":               {anyHost, func(i int) gw.HTTPRouteMatch { return at(fmt.Sprint("/a.b/C-", i)) }, 150},
		"odd paths":           {anyHost, func(i int) gw.HTTPRouteMatch { return at(fmt.Sprint("/", i, "/a%20b")) }, 64},
		"long paths": {anyHost, func(i int) gw.HTTPRouteMatch {
			return at(fmt.Sprint("/", i, "/2/3/4/5/6/7/8/9"))
		}, 64},
		"case": {anyHost, func(i int) gw.HTTPRouteMatch {
			return at(fmt.Sprint("/", i/2, []string{"/Ab", "/AB/c"}[i%2]))
		}, 128},
		"headers": {anyHost, func(i int) gw.HTTPRouteMatch {
			return gw.HTTPRouteMatch{Headers: []gw.HTTPHeaderMatch{{Name: "X-A", Value: fmt.Sprint(i)}}}
		}, 60},
		"wildcards": {"*.h%d.example.com", func(i int) gw.HTTPRouteMatch { return at(fmt.Sprint("/", i)) }, 146},
	} {
		s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, "+
			"allowedRoutes: {namespaces: {from: All}}}]}")
		s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 1000, 1000
		for i := range 150 {
			r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("r%03d", i)}}
			r.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
			r.Spec.Hostnames = []gw.Hostname{gw.Hostname(fmt.Sprintf(tt.host, i))}
			for j := range 16 {
				r.Spec.Rules = append(r.Spec.Rules, gw.HTTPRouteRule{Matches: []gw.HTTPRouteMatch{tt.match(16*i + j)}})
			}
			s.HTTPRoutes = append(s.HTTPRoutes, r)
		}
		got := gateways.Decide(s)
		if len(got.Table.Routes) != tt.want {
			t.Errorf("%s: %d routes, want %d", name, len(got.Table.Routes), tt.want)
		}
		if p := got.Problems(); len(p) > 0 && !strings.Contains(p[0].Text, "nginx variables") {
			t.Errorf("%s: %v", name, p[0])
		}
	}
}

// adder adds routes of namespaces to a state, each one newer than the one before. Their parent is a listener of the
// Gateway main.
func adder(s *gateways.State) func(namespace, listener string, hosts []string, rules ...gw.HTTPRouteRule) {
	return func(namespace, listener string, hosts []string, rules ...gw.HTTPRouteRule) {
		r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("r%03d", len(s.HTTPRoutes)),
			CreationTimestamp: metav1.Unix(int64(len(s.HTTPRoutes)), 0),
		}}
		r.Spec.ParentRefs = []gw.ParentReference{{
			Name: "main", Namespace: new(gw.Namespace("edge")), SectionName: new(gw.SectionName(listener)),
		}}
		for _, host := range hosts {
			r.Spec.Hostnames = append(r.Spec.Hostnames, gw.Hostname(host))
		}
		r.Spec.Rules = rules
		s.HTTPRoutes = append(s.HTTPRoutes, r)
	}
}

// rulesOf returns rules with some matches, eight in each rule.
func rulesOf(matches ...gw.HTTPRouteMatch) (rules []gw.HTTPRouteRule) {
	for of := range slices.Chunk(matches, 8) {
		rules = append(rules, gw.HTTPRouteRule{Matches: of})
	}
	return rules
}

// shared is a Gateway to which the routes of all namespaces may attach. The listeners a and b are in conflict.
const shared = "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [" +
	"{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}, " +
	"{name: a, port: 443, protocol: HTTP}, {name: b, port: 443, protocol: HTTP}]}"

// TestRefusedMatchesAreBounded checks that a team cannot make the decision long by routes that have no room, and that
// these routes take nothing from another team.
func TestRefusedMatchesAreBounded(t *testing.T) {
	t.Parallel()
	var odd, mixed []gw.HTTPRouteMatch
	for i := range 64 {
		odd, mixed = append(odd, at(fmt.Sprint("/", i, "/%20"))), append(mixed, at(fmt.Sprint("/a/b/c/", i)))
	}
	for reason, hosts := range map[string]func(route int) []string{
		"nginx variables": func(route int) (hosts []string) {
			for i := range 16 {
				hosts = append(hosts, fmt.Sprintf("h%d.r%d.example.com", i, route))
			}
			return hosts
		},
		"same hash": func(int) (hosts []string) {
			for i := range 16 {
				hosts = append(hosts, equal(i, 4)+".example.com")
			}
			return hosts
		},
	} {
		s := state(t, shared)
		s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 1000, 200
		add := adder(&s)
		add("team", "http", []string{"own.example.com"}, rulesOf(odd...)...)
		for i := range 50 {
			add("team", "http", hosts(i), rulesOf(append(mixed, odd...)...)...)
		}
		add("other", "http", []string{"other.example.com"}, rulesOf(mixed...)...)
		got := gateways.Decide(s)
		reasons := map[string]int{}
		for _, p := range got.Problems() {
			for _, text := range []string{reason, "considers no more matches"} {
				if strings.Contains(p.Text, text) {
					reasons[text]++
				}
			}
		}
		sum := reasons[reason] + reasons["considers no more matches"]
		if len(reasons) != 2 || sum+len(got.Table.Routes) != 52 || got.Table.Route("other/r051") == nil {
			t.Errorf("%s: %d routes have room; the others are refused for %v", reason, len(got.Table.Routes), reasons)
		}
	}
}

// TestVariablesOfATable counts nginx's variables for the matches of a namespace that tries to have more than its share.
func TestVariablesOfATable(t *testing.T) {
	t.Parallel()
	const share = 1024
	get, path := gw.HTTPMethodGet, 0
	colliding := func(authority string) string { // a path whose key has the remainder 0
		for ; ; path++ {
			if p := fmt.Sprintf("/%x", path<<20); routemap.Hash(authority+p)%10007 == 0 {
				path++
				return p
			}
		}
	}
	for name, build := range map[string]func(add func(string, string, []string, ...gw.HTTPRouteRule)){
		// The pods do not have the listener a. Its paths must not decide which other paths are keys.
		"a listener that is not served": func(add func(string, string, []string, ...gw.HTTPRouteRule)) {
			var full []gw.HTTPRouteMatch
			for range 100 {
				full = append(full, at(colliding("x.com:20001")))
			}
			add("edge", "a", []string{"x.com"}, rulesOf(full...)...)
			for i := range 80 {
				host, matches := fmt.Sprintf("h%d.com", i), []gw.HTTPRouteMatch{}
				first := colliding(host + ":20000")
				for j := range 95 {
					matches = append(matches, gw.HTTPRouteMatch{Path: at(fmt.Sprint(first, "/", j)).Path, Method: &get})
				}
				add("edge", "http", []string{host}, rulesOf(matches...)...)
			}
		},
		"weights": func(add func(string, string, []string, ...gw.HTTPRouteRule)) {
			var rules []gw.HTTPRouteRule
			for range 16 {
				ref := gw.HTTPBackendRef{}
				ref.Name, ref.Port = "web", new(gw.PortNumber(80))
				rules = append(rules, gw.HTTPRouteRule{BackendRefs: []gw.HTTPBackendRef{ref, ref}})
			}
			for i := range 100 {
				add("edge", "http", []string{fmt.Sprintf("h%d.com", i)}, rules...)
			}
		},
	} {
		s := state(t, shared)
		s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 1000, 200
		build(adder(&s))
		table := gateways.Decide(s).Table
		text, err := conf.Write(routemap.Maps(table, func(routes.Candidate) conf.Argument { return conf.Literal("x") }))
		if err != nil {
			t.Fatal(err)
		}
		found := len(regexp.MustCompile(`(?m)^\s*map .+ \$route_(conditions_)?\d+ \{`).FindAllString(text, -1))
		for _, r := range table.Routes {
			for i := range r.Rules {
				if len(r.Choices(i, "")) > 1 {
					found++
				}
			}
		}
		if found > share || found < share*9/10 {
			t.Errorf("%s: %d variables for %d routes", name, found, len(table.Routes))
		}
	}
}

// TestNewerRoutesCostNothing checks that newer routes change nothing for older ones, and that routes without room
// change nothing for others.
func TestNewerRoutesCostNothing(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(4) {
		s := crowded(rand.New(rand.NewPCG(seed, 1)))
		all := gateways.Decide(s)
		older, only := s, s
		older.HTTPRoutes, only.HTTPRoutes = nil, nil
		for _, r := range s.HTTPRoutes {
			if r.CreationTimestamp.Unix() < 500 {
				older.HTTPRoutes = append(older.HTTPRoutes, r)
			}
			if all.Parents[name(r.Namespace, r.Name)][0].Conditions[0].Reason != "NoRoom" {
				only.HTTPRoutes = append(only.HTTPRoutes, r)
			}
		}
		refused += len(s.HTTPRoutes) - len(only.HTTPRoutes)
		for what, of := range map[string]gateways.State{"newer routes": older, "routes without room": only} {
			got := gateways.Decide(of)
			for at, parents := range got.Parents {
				if diff := cmp.Diff(parents, all.Parents[at]); diff != "" {
					t.Errorf("seed %d: %s change the status of %s:\n%s", seed, what, at, diff)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("all routes had room")
	}
}

// at returns a match for a path.
func at(path string) gw.HTTPRouteMatch {
	return gw.HTTPRouteMatch{Path: &gw.HTTPPathMatch{Value: &path}}
}

// equal returns a text of pairs of letters. All texts of the same number of pairs have the same hash in nginx.
func equal(i, pairs int) (text string) {
	for bit := range pairs {
		text += []string{"an", "c0"}[i>>bit&1]
	}
	return text
}

// TestEqualHashes checks that a team cannot fill a bucket of nginx's tables with hosts that have the same hash. Other
// teams may use such a host too.
func TestEqualHashes(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]func(i int) string{
		"hosts":  func(i int) string { return equal(i, 4) + ".example.com" },
		"labels": func(i int) string { return "*." + equal(i, 4) + ".example.com" },
	} {
		s := state(t, "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP, "+
			"allowedRoutes: {namespaces: {from: All}}}]}")
		s.Fleet.MaxRoutes, s.Fleet.MaxRoutesPerNamespace = 100, 100
		add := func(namespace string, i int) {
			r := gw.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("r%02d", i)}}
			r.Spec.ParentRefs = []gw.ParentReference{{Name: "main", Namespace: new(gw.Namespace("edge"))}}
			r.Spec.Hostnames = []gw.Hostname{gw.Hostname(host(i))}
			r.Spec.Rules = []gw.HTTPRouteRule{{}}
			s.HTTPRoutes = append(s.HTTPRoutes, r)
		}
		for i := range 16 {
			add("team", i)
		}
		add("other", 15)
		of := map[string]int{}
		for _, r := range gateways.Decide(s).Table.Routes {
			of[r.Namespace]++
		}
		if of["team"] != 4 || of["other"] != 1 {
			t.Errorf("%s: %v are attached, want 4 and 1", name, of)
		}
	}
}

// TestEqualHashesOfListeners checks the same for the hosts of listeners.
func TestEqualHashesOfListeners(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 16 {
		list = append(list, fmt.Sprintf("{name: l%d, port: 80, protocol: HTTP, hostname: %s.example.com}", i, equal(i, 4)))
	}
	got := gateways.Decide(state(t,
		"kind: Gateway\nmetadata: {name: main}\nspec: {listeners: ["+strings.Join(list, ", ")+"]}"))
	if n := len(got.Table.Listeners); n != 4 {
		t.Errorf("%d listeners are served, want 4", n)
	}
}

// TestPathOfOtherBytes checks that a path that JSON cannot contain is refused.
func TestPathOfOtherBytes(t *testing.T) {
	t.Parallel()
	got := gateways.Decide(state(t, main+"---\n"+route("  rules: [{matches: [{path: {value: /a%FF}}]}]")))
	problems := got.Problems()
	if len(got.Table.Routes) != 0 || len(problems) == 0 || !strings.Contains(problems[0].Text, "no path in UTF-8") {
		t.Errorf("%+v, %v", got.Table.Routes, problems)
	}
}

// TestLongMessage checks that the API server accepts the message of a condition, however many rules have a problem.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	rule := "{matches: [{headers: [{name: " + strings.Repeat("é", 100) + ", value: a}]}]}"
	got := gateways.Decide(state(t, main+"---\n"+route("  rules: ["+strings.Repeat(rule+", ", 99)+rule+"]")))
	message := got.Parents[name("edge", "shop")][0].Conditions[0].Message
	if len(message) > 2100 || !strings.Contains(message, "spec.rules[0].matches[0].headers[0].name") {
		t.Errorf("the message has %d bytes: %.100s", len(message), message)
	}
}
