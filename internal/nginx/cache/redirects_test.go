package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// mostRedirects is the maximum number of internal redirects that a request may need. nginx allows ten
// (NGX_HTTP_MAX_URI_CHANGES), and answers with 500 beyond that. One redirect is left in reserve.
const mostRedirects = 9

// redirects contains the internal redirects of a server: for each location, the locations to which it can redirect.
type redirects map[string][]string

// findRedirects returns the redirects of each server: by error_page, and by X-Accel-Redirect from the gateway and other
// pods. An origin's own X-Accel-Redirect is not included. After it, the origin is responsible for the number of
// redirects.
func findRedirects(t *testing.T, text string) (servers []redirects) {
	t.Helper()
	file := parse(t, text)
	values := valuesIn(file, map[string][]string{})
	for _, http := range only("http", file) {
		for _, server := range only("server", http.block) {
			r := redirects{}
			for _, location := range only("location", server.block) {
				r[location.words[len(location.words)-1]] = redirectsOf(location.block, values)
			}
			servers = append(servers, r)
		}
	}
	return servers
}

// only returns the directives that have the given name.
func only(name string, block []statement) []statement {
	return slices.DeleteFunc(slices.Clone(block), func(s statement) bool { return s.words[0] != name })
}

// valuesIn adds the possible values of the variables that maps and "set" define.
func valuesIn(block []statement, values map[string][]string) map[string][]string {
	for _, s := range block {
		switch s.words[0] {
		case "map":
			for _, row := range s.block {
				values[s.words[2]] = append(values[s.words[2]], row.words[len(row.words)-1])
			}
		case "set":
			values[s.words[1]] = append(values[s.words[1]], s.words[2])
		default:
			valuesIn(s.block, values)
		}
	}
	return values
}

// redirectsOf returns the locations to which a location with these directives can redirect.
func redirectsOf(location []statement, values map[string][]string) (to []string) {
	for _, s := range only("error_page", location) {
		to = append(to, locations(s.words[len(s.words)-1], values)...)
	}
	for _, s := range only("proxy_set_header", location) {
		if s.words[1] == "X-CacheNode-Ask" { // the other pod redirects to the location that this header names
			to = append(to, locations(s.words[2], values)...)
		}
	}
	for _, s := range only("proxy_pass", location) {
		if !strings.HasPrefix(s.words[1], "http://gateway") {
			continue
		}
		if len(only("slice", location)) > 0 {
			to = append(to, "@whole", "@stored")
		}
		if len(only("proxy_cache", location)) > 0 { // a HEAD for an object that is not in the cache
			to = append(to, "@pass")
		}
	}
	for _, s := range only("set", location) {
		if s.words[1] == "$asks_from" && s.words[2] == "disk" { // for noted objects, or after a wait
			to = append(to, "@unlocked", "@waiting")
		}
	}
	return to
}

// locations returns the locations that a value can name.
func locations(value string, values map[string][]string) (found []string) {
	if strings.HasPrefix(value, "@") || strings.HasPrefix(value, "/") {
		return []string{value}
	}
	for _, v := range values[value] {
		found = append(found, locations(v, values)...)
	}
	return found
}

// longest returns the longest chain of redirects from the location from. before contains the locations through which
// the request has already gone.
func (r redirects) longest(t *testing.T, from string, before ...string) (way []string) {
	t.Helper()
	if slices.Contains(before, from) {
		t.Fatalf("requests can go in circles: from %s to %s", before, from)
	}
	for _, to := range r[from] {
		if _, known := r[to]; !known { // the chain ends here
			continue
		}
		if rest := append([]string{to}, r.longest(t, to, append(before, from)...)...); len(rest) > len(way) {
			way = rest
		}
	}
	return way
}

// TestRedirects follows all internal redirects that the rendered configurations allow, and checks that no request needs
// more of them than mostRedirects. Some chains that it finds cannot happen, but TestLongestWay takes one of the longest
// chains.
func TestRedirects(t *testing.T) {
	t.Parallel()
	inputs := map[string]string{}
	for golden, file := range goldenFiles(t) {
		text, err := os.ReadFile(file)
		must(t, err)
		inputs[filepath.Base(golden)] = string(text)
	}
	for media, spec := range map[string]func(string) string{"hard disks": sharded, "SSD": fastSharded} {
		for i, memory := range []string{"", nginxtest.MemoryTier("")} {
			for j, slice := range []string{"", "  cache: {slice: {size: 1Mi}}\n"} {
				for k, limit := range []string{"", "  listen: {maxConnectionsPerClient: 9}\n"} {
					inputs[fmt.Sprint(media, i, j, k)] = spec(memory + slice + limit)
				}
			}
		}
	}
	most := 0
	for name, yaml := range inputs {
		in := decode(t, []byte(yaml))
		for when, f := range map[string]fleet.Fleet{"at rest": fleet.Of(3), "hand-over": handOver()} {
			in.Facts.Fleet = cache.Fleet{Fleet: f, Certificate: certificateHash}
			config, err := cache.Render(in)
			must(t, err)
			for _, server := range findRedirects(t, config.Text) {
				for location := range server {
					way := server.longest(t, location)
					if most = max(most, len(way)); len(way) > mostRedirects {
						t.Errorf("%s, %s: %d redirects from %s: %s", name, when, len(way), location, way)
					}
				}
			}
		}
	}
	if most != mostRedirects {
		t.Errorf("the longest way has %d redirects, so mostRedirects is too high", most)
	}
}

// TestNobodyFetches checks that a pod fetches and stores an object itself if neither the owner nor the stand-in fetches
// it. If the disk of this pod is gone, the pod passes the request on to the origin.
func TestNobodyFetches(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"whole": "", "slices": "  cache: {slice: {size: 1Mi}}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookup := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(470) }
			fetch := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
			p, config := fakePods(t, fastSharded(policy), http.HandlerFunc(lookup), http.HandlerFunc(fetch))
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("ETag", `"1"`)
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(r.URL.Path+strings.Repeat(".", 3000)))
				return true
			})
			path := owned(t, "/object", 2, 1, 1)[0]
			disk := config.Plan.Tree().Owner([]byte("http://www.example.com" + path))
			for _, want := range []string{"none MISS ", "none HIT "} {
				r := p.get(t, 0, path)
				if got := how(r) + " " + r.Header.Get("X-Cache-Disk"); got != want+disk {
					t.Errorf("it came from %s, want %s", got, want+disk)
				}
			}
			must(t, os.RemoveAll(p.nginx[0].Root+layout.CacheDir(disk)))
			if got := how(p.get(t, 0, path)); got != "none UNCACHED" {
				t.Errorf("without its disk, it came from %s", got)
			}
		})
	}
}
