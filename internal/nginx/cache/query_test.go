package cache_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestQuery checks that nginx keeps the same arguments as Counted in the key, in the choice of the disk and in the
// request to the origin.
func TestQuery(t *testing.T) {
	t.Parallel()
	words := []string{"a=1", "b", "fbclid=x", "utm_a=y", "utm_b", "id=7", "page=2", "pagex", "", "a.b[]=1", "x%20y=%26"}
	var queries []string
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		var args []string
		for range random.IntN(20) {
			args = append(args, words[random.IntN(len(words))])
		}
		queries = append(queries, strings.Join(args, "&"))
	}
	for name, q := range map[string]*v1alpha1.Query{
		"drop": {Drop: []v1alpha1.NamePattern{"fbclid", "utm_*", "a.b[]", "x%20y"}},
		"keep": {Keep: []v1alpha1.NamePattern{"id", "page*"}},
	} {
		for kind, key := range map[string][]v1alpha1.KeyPart{
			"as sent": {v1alpha1.KeyHost, v1alpha1.KeyRequestURI}, "normalized": {v1alpha1.KeyURI, v1alpha1.KeyArgs},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				asked := make(chan string, 1)
				policy := v1alpha1.Cache{Key: key, CacheRules: v1alpha1.CacheRules{Query: q}}
				n := start(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.RequestURI },
					func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.Key, spec.Cache.Query = key, q })
				client := n.Client()
				seen := map[string]bool{}
				for _, query := range queries {
					r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/a%2Fb?"+query)
					uri := "/a%2Fb"
					if kind == "normalized" {
						uri = "/a/b"
					}
					if counted := cachekey.Counted(q, query); counted != "" {
						uri += "?" + counted
					}
					want := "HIT"
					if !seen[uri] {
						want = "MISS"
						if got := <-asked; got != uri {
							t.Fatalf("for %q, the origin is asked for %q, want %q", query, got, uri)
						}
					}
					seen[uri] = true
					sent := cachekey.Request{Scheme: "http", Host: "www.example.com", URI: "/a%2Fb?" + query}
					cacheKey := cachekey.Of(policy, sent).String()
					file := n.Root + cachekey.OnDisk(r.Header.Get("X-Cache-Disk"), cacheKey)
					if _, err := os.Stat(file); err != nil || r.Header.Get("X-Cache") != want {
						t.Fatalf("%q: X-Cache %s, want %s; file of key %q: %v", query, r.Header.Get("X-Cache"), want, cacheKey, err)
					}
				}
			})
		}
	}
}

// TestLongQuery checks that nginx evaluates a query in a bounded number of steps, whatever the spec drops and the
// client sends. Beyond the bound, PCRE gives up, and the whole query would count.
func TestLongQuery(t *testing.T) {
	t.Parallel()
	const (
		length     = 7500 // nginx accepts a request line of up to 8 KiB
		characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123[]-_.~%"
	)
	var names []v1alpha1.NamePattern
	for i := range len(characters) {
		names = append(names, v1alpha1.NamePattern(fmt.Sprintf("%c%02d", characters[i], i)))
	}
	long := func(arg string) string { return strings.Repeat(arg, length/len(arg)) }
	for name, q := range map[string]*v1alpha1.Query{"drop": {Drop: names}, "keep": {Keep: names}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			in := decode(t, []byte(threeDisks))
			in.Spec.Cache.Query = q
			config, err := cache.Render(in)
			must(t, err)
			const before, steps = `"~(?(DEFINE)`, "(*LIMIT_MATCH=150000)" // 20 steps for each character of the query
			text := strings.Replace(config.Text, before, `"~`+steps+before[2:], 1)
			if text == config.Text {
				t.Fatalf("no %s", before)
			}
			n.Configure(text, "disk1", "disk2", "disk3")
			n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(r.URL.RawQuery))
			}))
			n.Start()
			client := n.Client()
			for _, query := range []string{
				long("&"), long("z&"), long("-&"), long("A&"), long("A0&"), long("A00&"), long("A00&B&"),
				long("z&A00&"), long("A00=1&]&"),
				strings.Repeat("z&A00&", cachekey.Groups-1) + long("]&"), long("]&") + "A00", long("z"), "A00=" + long("="),
			} {
				r, body := ask(t, client, http.MethodGet, example+"?"+query)
				if want := cachekey.Counted(q, query); r.StatusCode != http.StatusOK || body != want {
					t.Errorf("%.20q...: status %d, %d characters count, want %d", query, r.StatusCode, len(body), len(want))
				}
			}
			if strings.Contains(n.Log(), "pcre2_match() failed") {
				t.Error("PCRE gave up")
			}
		})
	}
}

// TestLongNames checks that nginx accepts 64 names of 51 characters, although it accepts no argument of more than 4 KiB
// in its configuration.
func TestLongNames(t *testing.T) {
	t.Parallel()
	q := &v1alpha1.Query{}
	for i := range 64 {
		q.Drop = append(q.Drop, v1alpha1.NamePattern(fmt.Sprintf("%02d", i)+strings.Repeat(string(rune('a'+i%26)), 49)))
	}
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.RawQuery)) },
		func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.Query = q })
	query := "a=1&" + string(q.Drop[63]) + "=1&b=2"
	if _, body := ask(t, client, http.MethodGet, example+"?"+query); body != "a=1&b=2" {
		t.Errorf("%q counts", body)
	}
}

// TestQueryInMemory checks that requests share a copy in memory if they differ only in arguments that do not count.
func TestQueryInMemory(t *testing.T) {
	t.Parallel()
	client := startWith(t, text, inMemory, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Cache.Query = &v1alpha1.Query{Drop: []v1alpha1.NamePattern{"utm_*"}}
	})
	becomes(t, "HIT memory", func() string {
		r, _ := ask(t, client, http.MethodGet, example+"?a=1&utm_x="+fmt.Sprint(rand.Int()))
		return place(r)
	})
}

// TestBypass checks that a request with one of the cookies or headers of cache.bypass gets its own response from the
// origin. No other request may get that response.
func TestBypass(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]func(*v1alpha1.CacheNodeSpec){
		"disks alone": nil, "memory tier": {inMemory}, "slices": {inSlices},
	} {
		t.Run(name, func(t *testing.T) {
			client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte("for " + r.Header.Get("Cookie") + r.Header.Get("X-Preview")))
			}, append(changes, func(spec *v1alpha1.CacheNodeSpec) {
				spec.Cache.Bypass = &v1alpha1.Bypass{
					Cookies: []v1alpha1.NamePattern{"session", "logged_in_*"}, Headers: []v1alpha1.HeaderName{"X-Preview"},
				}
			})...)
			where := "HIT disk"
			if name == "memory tier" {
				where = "HIT memory"
			}
			becomes(t, where, func() string {
				r, _ := ask(t, client, http.MethodGet, example)
				return place(r)
			})
			for header, bypasses := range map[string]bool{
				"Cookie: session=1": true, "Cookie: a=b; session=": true, "Cookie: a=b;logged_in_77=1": true,
				"X-Preview: 1": true, "X-Preview: 0": true, "X-Preview: ": false,
				"Cookie: session": true, "Cookie: a=b,session =x": true, "Cookie: session_id=x": false,
				"Cookie: xsession=1": false, "Cookie: a=session=1": false, "Cookie: logged_in=1": false,
			} {
				_, value, _ := strings.Cut(header, ": ")
				want := "for "
				if bypasses {
					want += value
				}
				if r, body := ask(t, client, http.MethodGet, example, header); body != want {
					t.Errorf("with %s, a %s says %q, want %q", header, place(r), body, want)
				}
			}
			if r, body := ask(t, client, http.MethodGet, example); body != "for " {
				t.Errorf("others get %q from %s", body, place(r))
			}
		})
	}
}

// FuzzDrop checks that nginx's regular expression and cachekey.Counted remove the same arguments, for all names that
// the API allows.
func FuzzDrop(f *testing.F) {
	f.Add("utm_*", "a.b[]", "utm_a=1&x&a.b[]=2&&")
	f.Add("%5B-~", "[][]*", "[]=1&[][]x=&%5B-~")
	allowed := regexp.MustCompile(`^[][A-Za-z0-9_.~%-]+[*]?$`) // as in v1alpha1.NamePattern
	f.Fuzz(func(t *testing.T, first, second, query string) {
		if !allowed.MatchString(first) || !allowed.MatchString(second) || strings.ContainsAny(query, "\n") ||
			!utf8.ValidString(query) {
			t.Skip("the API refuses such a name, or nginx such a query")
		}
		q := v1alpha1.Query{Drop: []v1alpha1.NamePattern{v1alpha1.NamePattern(first), v1alpha1.NamePattern(second)}}
		uncounted := cache.Guards.ReplaceAllString(cache.Uncounted(q), "")
		expression, err := regexp.Compile(cache.Removable("(?:" + uncounted + ")"))
		if err != nil {
			t.Fatal(err)
		}
		want := query
		if m := expression.FindStringSubmatch(query); m != nil {
			want = strings.Join(m[1:], "")
		}
		want = strings.TrimRight(want, "&") // another map in nginx does the same
		if got := cachekey.Counted(&q, query); got != want {
			t.Errorf("%v of %q leaves %q, nginx %q", q.Drop, query, got, want)
		}
	})
}
