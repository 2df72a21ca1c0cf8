package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestRouteFilters checks what the backend of a route with changes of headers gets, and that nothing else changes.
func TestRouteFilters(t *testing.T) {
	t.Parallel()
	longest := "x-" + strings.Repeat("x", 254) // HTTPHeaderName
	table := twoTeams()
	changed := func(path string, port int32, h routes.HeaderChanges) routes.Rule {
		return routes.Rule{
			Matches: []routes.Match{{Path: routes.Path{Value: path}}}, Headers: h,
			Backends: []routes.Backend{{Name: fmt.Sprint("backend:", port), Host: "127.0.0.1", Port: port, Weight: 1}},
		}
	}
	table.Routes[0].Rules = append(table.Routes[0].Rules,
		changed("/changed", 9003, routes.HeaderChanges{
			Set:    []routes.Pair{{Name: "X-Set", Value: `a "b" \ ; {}`}, {Name: "X-New", Value: "new"}},
			Add:    []routes.Pair{{Name: "X-Add", Value: "added"}, {Name: longest, Value: "added"}},
			Remove: []string{"X-Remove", "Cookie"},
		}),
		changed("/down", 9004, routes.HeaderChanges{Remove: []string{"Cookie"}}))
	n := startRoutes(t, threeDisks, func(in *cache.Input) { in.Routes = table })
	var got atomic.Pointer[http.Request]
	var bodies atomic.Pointer[string]
	n.Serve("127.0.0.1:9003", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.Store(r)
		bodies.Store(new(string(body)))
		w.Header()["Date"] = []string{"Sun, 01 Nov 2026 00:00:00 GMT"}
		w.Header().Set("X-Accel-Expires", map[bool]string{true: "60", false: "0"}[strings.HasSuffix(r.URL.Path, "fresh")])
		_, _ = io.WriteString(w, "changed")
	}))
	var tries atomic.Int32
	n.Serve("127.0.0.1:9004", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		tries.Add(1)
		panic(http.ErrAbortHandler) // closes the connection
	}))
	ask := func(method, path, body string) (status int, cacheStatus string) {
		r, err := http.NewRequest(method, "http://127.0.0.1:20000"+path, strings.NewReader(body))
		must(t, err)
		r.Host = "red.example.com"
		for name, value := range map[string]string{
			"X-Set": "client", "X-Add": "client", "X-Remove": "client", "Cookie": "a=b", "X-Other": "client",
		} {
			r.Header.Set(name, value)
		}
		response, err := n.Client().Do(r)
		must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if path != "/down" && !strings.HasPrefix(response.Header.Get("Date"), "Sun, 01 Nov") {
			t.Errorf("%s %s: headers of the response: %v", method, path, response.Header)
		}
		return response.StatusCode, response.Header.Get("X-Cache")
	}
	for i, want := range []struct{ method, path, body, status string }{
		{"GET", "/changed/%41%2Fb?c=%20d", "", "200 MISS"},
		{"POST", "/changed", strings.Repeat("body", 50000), "200 BYPASS"},
		{"GET", "/changed/fresh", "", "200 MISS"},
	} {
		status, cacheStatus := ask(want.method, want.path, want.body)
		if got := fmt.Sprint(status, " ", cacheStatus); got != want.status {
			t.Errorf("request %d: %s, want %s", i, got, want.status)
		}
		r := got.Load()
		if r.Method != want.method || *bodies.Load() != want.body || r.Host != "red.example.com" {
			t.Errorf("request %d: the backend got %s for %s with %d bytes", i, r.Method, r.Host, len(*bodies.Load()))
		}
		if r.RequestURI != want.path && r.RequestURI != "/changed/A%2Fb?c=%20d" {
			t.Errorf("request %d: the backend got the path %s", i, r.RequestURI)
		}
		headers := map[string][]string{}
		for name, values := range r.Header {
			if strings.HasPrefix(name, "X-") || name == "Cookie" {
				headers[name] = values
			}
		}
		delete(headers, "X-Forwarded-For")
		if diff := cmp.Diff(map[string][]string{
			"X-Set": {`a "b" \ ; {}`}, "X-New": {"new"}, "X-Add": {"client", "added"}, "X-Other": {"client"},
			http.CanonicalHeaderKey(longest): {"added"},
			"X-Forwarded-Host":               {"red.example.com"}, "X-Forwarded-Proto": {"http"},
		}, headers); diff != "" {
			t.Errorf("request %d: headers (-want +got):\n%s", i, diff)
		}
	}
	if status, cacheStatus := ask("GET", "/changed/fresh", ""); status != 200 || cacheStatus != "HIT" {
		t.Errorf("second request: %d %s", status, cacheStatus)
	}
	for method, most := range map[string][2]int32{"GET": {2, 30}, "POST": {1, 1}} {
		tries.Store(0)
		if status, _ := ask(method, "/down", ""); status != http.StatusBadGateway {
			t.Errorf("%s to a backend that closes connections: %d", method, status)
		}
		if n := tries.Load(); n < most[0] || n > most[1] {
			t.Errorf("%s to a backend that closes connections: %d tries, want %d to %d", method, n, most[0], most[1])
		}
	}
}
