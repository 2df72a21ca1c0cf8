package routes_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// The model in this file follows the text of the specification directly. It compares all matches of a request with each
// other.

// accepts returns true if a pattern accepts a host. The pattern is equal to the host, or it has a wildcard for one or
// more labels (see Hostname in the specification).
func accepts(pattern routes.Host, host string) bool {
	if suffix, ok := strings.CutPrefix(string(pattern), "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return pattern == "" || string(pattern) == host
}

// moreSpecific compares two patterns. It first compares the number of "characters in a matching non-wildcard hostname",
// and then the number of "characters in a matching hostname" (HTTPRouteSpec.hostnames).
func moreSpecific(a, b routes.Host) int {
	exact := func(h routes.Host) int {
		if strings.HasPrefix(string(h), "*") {
			return 0
		}
		return len(h)
	}
	return cmp.Or(-cmp.Compare(exact(a), exact(b)), -cmp.Compare(len(a), len(b)))
}

// candidate is a match of a request.
type candidate struct {
	host        routes.Host
	match       routes.Match
	route, rule int
}

// model returns the rule that answers a request, in the form "ROUTE rule RULE"; "" if no rule answers it.
func model(t routes.Table, port int32, r routes.Request) string {
	var listener *routes.Listener
	for i := range t.Listeners {
		l := &t.Listeners[i]
		if l.PodPort == port && accepts(l.Host, r.Host) && (listener == nil || moreSpecific(l.Host, listener.Host) < 0) {
			listener = l
		}
	}
	if listener == nil {
		return ""
	}
	var found []candidate
	for _, a := range listener.Attached {
		route := slices.IndexFunc(t.Routes, func(r routes.Route) bool { return r.ID() == a.Route })
		for _, h := range a.Hosts {
			if !accepts(h, r.Host) {
				continue
			}
			for i, rule := range t.Routes[route].Rules {
				for _, m := range rule.Matches {
					if meets(m, r) {
						found = append(found, candidate{host: h, match: m, route: route, rule: i})
					}
				}
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	best := slices.MinFunc(found, func(a, b candidate) int {
		// This is the order of HTTPRouteRule.matches. A route that comes first in the table is older, or its name comes
		// first.
		return cmp.Or(
			moreSpecific(a.host, b.host),
			yes(b.match.Path.Exact)-yes(a.match.Path.Exact),
			len(b.match.Path.Value)-len(a.match.Path.Value),
			yes(b.match.Method != "")-yes(a.match.Method != ""),
			len(b.match.Headers)-len(a.match.Headers),
			len(b.match.Query)-len(a.match.Query),
			a.route-b.route,
			a.rule-b.rule)
	})
	return fmt.Sprintf("%s rule %d", t.Routes[best.route].ID(), best.rule)
}

func yes(is bool) int {
	if is {
		return 1
	}
	return 0
}

// meets returns true if a request meets a match. It compares paths segment by segment.
func meets(m routes.Match, r routes.Request) bool {
	if m.Path.Exact && m.Path.Value != r.Path {
		return false
	}
	if prefix, path := segments(m.Path.Value), segments(r.Path); !m.Path.Exact &&
		(len(prefix) > len(path) || !slices.Equal(prefix, path[:len(prefix)])) {
		return false
	}
	for _, h := range m.Headers {
		if r.Headers[strings.ToLower(h.Name)] != h.Value {
			return false
		}
	}
	for _, q := range m.Query {
		if !slices.Contains(strings.Split(r.Query, "&"), q.Name+"="+q.Value) {
			return false
		}
	}
	return m.Method == "" || m.Method == r.Method
}

func segments(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// pick makes random tables and requests from a few values, so that matches overlap.
type pick struct{ *rand.Rand }

func one[T any](p pick, of ...T) T { return of[p.IntN(len(of))] }

func (p pick) host() routes.Host {
	return one[routes.Host](p, "", "*.b", "*.a.b", "a.b", "c.a.b", "x.b")
}

func (p pick) pairs() (pairs []routes.Pair) {
	for _, name := range []string{"V", "W"} {
		if p.IntN(4) == 0 {
			pairs = append(pairs, routes.Pair{Name: name, Value: one(p, "1", "2")})
		}
	}
	return pairs
}

func (p pick) match() routes.Match {
	m := routes.Match{
		Path:    routes.Path{Value: one(p, "/", "/a", "/a/b", "/ab", "/a/b/c"), Exact: p.IntN(3) == 0},
		Method:  one(p, "", "", "GET", "POST"),
		Headers: p.pairs(), Query: p.pairs(),
	}
	if m.Path.Exact && p.IntN(3) == 0 {
		m.Path.Value += "/"
		m.Path.Value = strings.Replace(m.Path.Value, "//", "/", 1)
	}
	return m
}

// table returns a table that the operator could make. The listeners of a port have different patterns, and each
// listener accepts all hosts of its attachments.
func (p pick) table() (t routes.Table) {
	for i := range 1 + p.IntN(5) {
		r := routes.Route{Namespace: "team", Name: fmt.Sprintf("route-%d", i)}
		for range 1 + p.IntN(3) {
			var rule routes.Rule
			for range 1 + p.IntN(3) {
				rule.Matches = append(rule.Matches, p.match())
			}
			r.Rules = append(r.Rules, rule)
		}
		t.Routes = append(t.Routes, r)
	}
	has := map[string]bool{}
	for range 2 + p.IntN(4) {
		l := routes.Listener{Host: one(p, "", "", p.host()), PodPort: one(p, int32(20000), int32(20001))}
		name := fmt.Sprint(l.PodPort, l.Host)
		if has[name] {
			continue
		}
		has[name] = true
		for _, r := range t.Routes {
			a := routes.Attachment{Route: r.ID()}
			for range p.IntN(3) {
				if h, ok := p.host().Both(l.Host); ok && !slices.Contains(a.Hosts, h) {
					a.Hosts = append(a.Hosts, h)
				}
			}
			if len(a.Hosts) > 0 {
				l.Attached = append(l.Attached, a)
			}
		}
		t.Listeners = append(t.Listeners, l)
	}
	return t
}

func (p pick) request() routes.Request {
	r := routes.Request{
		Host: one(p, "a.b", "c.a.b", "d.c.a.b", "x.b", "y.x.b", "b", "other"), Method: one(p, "GET", "POST", "HEAD"),
		Path:    one(p, "/", "/a", "/a/", "/a/b", "/ab", "/a/b/c", "/a/b/c/d", "/abc", "/a/bc"),
		Headers: map[string]string{},
	}
	var query []string
	for _, q := range p.pairs() {
		query = append(query, q.Name+"="+q.Value)
	}
	for _, h := range p.pairs() {
		r.Headers[strings.ToLower(h.Name)] = h.Value
	}
	r.Query = strings.Join(query, "&")
	return r
}

// TestPrecedence compares the result of Find with the model.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	answered, nowhere := 0, 0
	for seed := range uint64(2000) {
		p := pick{rand.New(rand.NewPCG(seed, 0))}
		table := p.table()
		hosts := map[int32][]routes.VirtualHost{20000: table.VirtualHosts(20000), 20001: table.VirtualHosts(20001)}
		for range 50 {
			port, r := one(p, int32(20000), int32(20001)), p.request()
			got := ""
			vhost, c := routes.Find(hosts[port], r)
			if c != nil {
				got = fmt.Sprintf("%s rule %d", table.Routes[c.Route].ID(), c.Rule)
				answered++
			} else if vhost < 0 {
				nowhere++
			}
			if want := model(table, port, r); got != want {
				t.Fatalf("seed %d, port %d, %+v: %q, want %q, of %+v", seed, port, r, got, want, table)
			}
		}
	}
	if answered < 10000 || nowhere < 10000 {
		t.Errorf("%d requests were answered, and %d belong to no listener", answered, nowhere)
	}
}
