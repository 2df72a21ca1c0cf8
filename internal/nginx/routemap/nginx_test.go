package routemap_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/test/await"
)

const (
	firstPort  = int32(20000)
	secondPort = int32(20001)
)

// value returns the position of a candidate's route in the table, and the position of its rule in the route.
func value(c routes.Candidate) conf.Argument {
	return conf.Literal(fmt.Sprintf("%d-%d", c.Route, c.Rule))
}

// serve starts an nginx. Each answer contains the rule that nginx found for the request, and the request's host and
// path as nginx read them.
func serve(t *testing.T, table routes.Table) *nginxtest.Nginx {
	t.Helper()
	table, _ = planned(table)
	text, err := conf.Write(conf.Block{
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal(layout.PIDFile)),
		conf.D("error_log", conf.Literal("stderr"), conf.Literal("warn")),
		conf.B("events", nil, conf.D("worker_connections", conf.Literal("64"))),
		conf.B("http", nil, append(slices.Concat(routemap.Sizes(), routemap.Maps(table, value)),
			conf.D("access_log", conf.OnOff(false)),
			conf.D("client_body_temp_path", conf.Literal(layout.RunDir+"/body")),
			conf.D("proxy_temp_path", conf.Literal(layout.RunDir+"/proxy")),
			conf.D("fastcgi_temp_path", conf.Literal(layout.RunDir+"/fastcgi")),
			conf.D("uwsgi_temp_path", conf.Literal(layout.RunDir+"/uwsgi")),
			conf.D("scgi_temp_path", conf.Literal(layout.RunDir+"/scgi")),
			conf.D("keepalive_requests", conf.Literal("1000000")),
			conf.D("keepalive_timeout", conf.Literal("1h")),
			conf.B("server", nil,
				conf.D("listen", conf.Int(firstPort)),
				conf.D("listen", conf.Int(secondPort)),
				conf.D("listen", conf.Int(layout.PrivatePort)),
				conf.D("return", conf.Literal("200"), conf.Expression(string(routemap.Rule)+"|$host|$uri"))))...),
	})
	must(t, err)
	n := nginxtest.New(t)
	n.Configure(text)
	n.Start()
	return n
}

// client sends requests to an nginx over one connection.
type client struct {
	conn   io.Writer
	reader *bufio.Reader
}

func dial(t *testing.T, n *nginxtest.Nginx, port int32) client {
	t.Helper()
	conn, err := n.Dial(fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	must(t, conn.SetDeadline(await.Deadline()))
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

// ask sends a request, and returns the rule that nginx found and the request as nginx read it. uri is the path and the
// query.
func (c client) ask(t *testing.T, r routes.Request, uri string) (rule string, understood routes.Request) {
	t.Helper()
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, uri, r.Host)
	for name, value := range r.Headers {
		text += name + ": " + value + "\r\n"
	}
	_, err := io.WriteString(c.conn, text+"\r\n")
	must(t, err)
	response, err := http.ReadResponse(c.reader, nil)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, err)
	parts := strings.SplitN(string(body), "|", 3)
	if response.StatusCode != http.StatusOK || len(parts) != 3 {
		t.Fatalf("%s %s: status %d, %q", r.Host, uri, response.StatusCode, body)
	}
	r.Host, r.Path = parts[1], parts[2]
	_, r.Query, _ = strings.Cut(uri, "?")
	return parts[0], r
}

// want returns the rule that should answer a request.
func want(hosts []routes.VirtualHost, r routes.Request) string {
	if _, c := routes.Find(hosts, r); c != nil {
		return fmt.Sprintf("%d-%d", c.Route, c.Rule)
	}
	return ""
}

// pick makes random tables and requests.
type pick struct{ *rand.Rand }

func one[T any](p pick, of ...T) T { return of[p.IntN(len(of))] }

// hosts are the host patterns in the tables. Some of them are also words of nginx's configuration.
var hosts = []routes.Host{
	"", "*.b.com", "*.a.b.com", "a.b.com", "c.a.b.com", "default", "include", "hostnames", "volatile",
}

// segments are the segments of the paths in the tables, encoded as a client may write them.
var segments = []string{
	"a", "A", "b", "api", "API", "v1", "v2", "a.b", "a%20b", "%24x", "$x", "a+b", "a%2Bb", "%22", "'", "%5C", "%7B", "~",
	"*", "(a)", "a|b", "%0A", "%0D%0A", "%FF", "%C3%BC", "default", "include", ";", "%23", "%3F", "@", "x=y", "",
}

// path returns the path of a request as a client writes it, and the decoded form of this path.
func (p pick) path() (raw, decoded string) {
	for range p.IntN(4) {
		raw += "/" + one(p, segments...)
	}
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		panic(err)
	}
	for strings.Contains(decoded, "//") {
		decoded = strings.ReplaceAll(decoded, "//", "/")
	}
	if raw == "" {
		return "/", "/"
	}
	return raw, decoded
}

var (
	names  = []string{"X-Version", "x", "Accept", "page"}
	values = []string{"1", "2", "a b", `"`, `\`, "$host", "~x", "+", "%41", "A", "ü", "a=b", "a&b", "", "default"}
)

func (p pick) pairs() (pairs []routes.Pair) {
	for _, name := range names {
		if p.IntN(6) == 0 {
			pairs = append(pairs, routes.Pair{Name: name, Value: one(p, values...)})
		}
	}
	return pairs
}

func (p pick) match() routes.Match {
	_, path := p.path()
	m := routes.Match{Path: routes.Path{Value: path, Exact: p.IntN(2) == 0}}
	if !m.Path.Exact && path != "/" {
		m.Path.Value = strings.TrimSuffix(path, "/")
	}
	if p.IntN(2) == 0 {
		m.Method, m.Headers, m.Query = one(p, "", "GET", "POST"), p.pairs(), p.pairs()
		isEmpty := func(p routes.Pair) bool { return p.Value == "" } // the API does not allow empty values
		m.Headers, m.Query = slices.DeleteFunc(m.Headers, isEmpty), slices.DeleteFunc(m.Query, isEmpty)
	}
	return m
}

// table returns a table in which all hosts of a port together have the given number of rules.
func (p pick) table(rules int) (t routes.Table) {
	for i := range 4 {
		r := routes.Route{Namespace: "team", Name: fmt.Sprintf("route-%d", i)}
		for range rules / 4 {
			r.Rules = append(r.Rules, routes.Rule{Matches: []routes.Match{p.match()}})
		}
		t.Routes = append(t.Routes, r)
	}
	for _, port := range []int32{firstPort, secondPort} {
		l := routes.Listener{PodPort: port, Host: one(p, "", routes.Host("*.b.com"))}
		for _, r := range t.Routes {
			a := routes.Attachment{Route: r.ID()}
			for range 3 {
				if h, ok := one(p, hosts...).Both(l.Host); ok && !slices.Contains(a.Hosts, h) {
					a.Hosts = append(a.Hosts, h)
				}
			}
			l.Attached = append(l.Attached, a)
		}
		t.Listeners = append(t.Listeners, l)
	}
	return t
}

// request returns a request, and its path and query in the form in which a client writes them.
func (p pick) request() (r routes.Request, uri string) {
	uri, _ = p.path()
	r = routes.Request{
		Host: one(p, "a.b.com", "C.A.B.com", "x.a.b.com", "b.com", "default", "include", "hostnames", "volatile", "other",
			"a.b.com:99"),
		Method: one(p, "GET", "POST"), Headers: map[string]string{},
	}
	for _, h := range p.pairs() {
		r.Headers[strings.ToLower(h.Name)] = h.Value
	}
	var query []string
	for _, q := range append(p.pairs(), p.pairs()...) {
		query = append(query, p.escape(q.Name)+"="+p.escape(q.Value))
	}
	if len(query) > 0 || p.IntN(3) == 0 {
		uri += "?" + strings.Join(query, "&")
	}
	return r, uri
}

// escape encodes a text for a query. Sometimes it also encodes bytes that need no encoding.
func (p pick) escape(text string) string {
	switch p.IntN(3) {
	case 0:
		return url.QueryEscape(text)
	case 1:
		return url.PathEscape(text)
	default:
		var escaped string
		for _, b := range []byte(text) {
			escaped += fmt.Sprintf(one(p, "%%%02x", "%%%02X"), b)
		}
		return escaped
	}
}

// TestRules compares the rule that nginx chooses with the rule that routes.Find returns, for tables with few rules and
// with many rules.
func TestRules(t *testing.T) {
	t.Parallel()
	for rules, tables := range map[int]int{4: 10, 40: 10, 400: 5} {
		for seed := range tables {
			t.Run(fmt.Sprintf("%d rules, %d", rules, seed), func(t *testing.T) {
				t.Parallel()
				p := pick{rand.New(rand.NewPCG(uint64(seed), uint64(rules)))}
				table := p.table(rules)
				n := serve(t, table)
				answered := 0
				for _, port := range []int32{firstPort, secondPort} {
					c, vhosts := dial(t, n, port), table.VirtualHosts(port)
					for range 300 {
						r, uri := p.request()
						got, understood := c.ask(t, r, uri)
						if want := want(vhosts, understood); got != want {
							t.Fatalf("port %d: %s %s %s %v: rule %q, want %q", port, r.Method, r.Host, uri, r.Headers, got, want)
						}
						if got != "" {
							answered++
						}
					}
				}
				if answered == 0 && rules > 4 {
					t.Error("no request was answered")
				}
				r, uri := p.request()
				if got, _ := dial(t, n, layout.PrivatePort).ask(t, r, uri); got != "" {
					t.Errorf("a port of no listener: rule %q", got)
				}
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
