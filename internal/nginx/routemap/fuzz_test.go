package routemap_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// FuzzMatches checks that nginx accepts the maps for any texts in a match, and that it chooses the same rule as
// routes.Find for a request with these texts.
func FuzzMatches(f *testing.F) {
	f.Add("/a", "1", "page", "2", false)
	f.Add("/A.b/\"; return 200 x;#", "$host ~^ \\x", "a[]", "+&=%20", true)
	f.Add("/default/\\E)(?:{3}/é\n", "include", "", "default", false)
	f.Fuzz(func(t *testing.T, path, header, name, value string, exact bool) {
		if path = "/" + strings.TrimLeft(path, "/"); !exact && path != "/" {
			path = strings.TrimRight(path, "/")
		}
		all := routes.Match{Path: routes.Path{Value: path, Exact: exact}}
		if header != "" {
			all.Headers = []routes.Pair{{Name: "X-A", Value: header}}
		}
		if name != "" && value != "" {
			all.Query = []routes.Pair{{Name: name, Value: value}}
		}
		if path != routes.NormalPath(path) || !utf8.ValidString(path+header+name+value) || strings.Contains(path, "\x00") ||
			isNoHeader(header) || routemap.Check(all) != nil {
			t.Skip("no route and no request can have these texts") // no seed is skipped
		}
		table := routes.Table{
			Listeners: []routes.Listener{{PodPort: firstPort, Attached: []routes.Attachment{
				{Route: "team/a", Hosts: []routes.Host{"a.example.com"}},
			}}},
			Routes: []routes.Route{{Namespace: "team", Name: "a", Rules: []routes.Rule{
				{Matches: []routes.Match{all}}, {Matches: []routes.Match{{Path: all.Path}}},
			}}},
		}
		c, vhosts := dial(t, serve(t, table), firstPort), table.VirtualHosts(firstPort)
		raw := strings.ReplaceAll(url.PathEscape(path), "%2F", "/")
		for _, r := range []routes.Request{
			{Headers: map[string]string{"x-a": header}, Query: url.QueryEscape(name) + "=" + url.QueryEscape(value)},
			{Headers: map[string]string{"x-a": header + "a"}, Query: url.QueryEscape(name+"a") + "=" + url.QueryEscape(value)},
		} {
			for _, uri := range []string{raw, raw + "/more", "/"} {
				r.Host, r.Method = "a.example.com", "GET"
				got, understood := c.ask(t, r, uri+"?"+r.Query)
				if want := want(vhosts, understood); got != want {
					t.Errorf("match %+v, request %s?%s, %v: rule %q, want %q", all, uri, r.Query, r.Headers, got, want)
				}
			}
		}
	})
}

// isNoHeader returns true for a text that a request cannot have as the value of a header.
func isNoHeader(text string) bool {
	return text != strings.TrimSpace(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
