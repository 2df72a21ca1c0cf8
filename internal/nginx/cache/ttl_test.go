package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// ruledSite is a site with cache rules: the CacheNode's own site, or the site of a route with a policy.
type ruledSite struct {
	*nginxtest.Nginx
	// url is the address of the site. prefix is the beginning of its keys.
	url, host, prefix string
}

// ruledSites starts an nginx with the rules for each of the two kinds of sites.
func ruledSites(t *testing.T, rules v1alpha1.CacheRules, origin http.HandlerFunc) map[string]ruledSite {
	t.Helper()
	own := decode(t, []byte(threeDisks))
	own.Spec.Cache.CacheRules = rules
	routed := decode(t, []byte(threeDisks))
	id := routes.PolicyID(rules)
	routed.Routes = twoTeams()
	routed.Routes.Policies = map[string]v1alpha1.CacheRules{id: rules}
	routed.Routes.Routes[0].Rules[0].Policy = id
	list := map[string]ruledSite{}
	for name, in := range map[string]cache.Input{"own site": own, "route": routed} {
		config, err := cache.Render(in)
		must(t, err)
		n := nginxtest.New(t)
		n.Configure(config.Text, "disk1", "disk2", "disk3")
		s := ruledSite{n, "http://127.0.0.1:8080", "www.example.com", ""}
		address := "127.0.0.1:9000"
		if name == "route" {
			s = ruledSite{n, "http://127.0.0.1:20000", "red.example.com", "site=111111111111.11111111.site "}
			address = "127.0.0.1:9001"
		}
		n.Serve(address, origin)
		n.Start()
		list[name] = s
	}
	return list
}

// get sends a request to the site.
func (s ruledSite) get(t *testing.T, path string, headers ...string) (r *http.Response, body string) {
	t.Helper()
	return send(t, s.Client(), http.MethodGet, s.host, s.url+path, headers...)
}

// files returns the cache files of a path.
func (s ruledSite) files(path string) []string {
	return s.Cached(s.prefix+"http://"+s.host+path, "disk1", "disk2", "disk3")
}

// stored returns the header of the stored response for a path.
func (s ruledSite) stored(t *testing.T, path string) cachefile.Header {
	t.Helper()
	file, err := os.Open(s.files(path)[0])
	must(t, err)
	defer func() { _ = file.Close() }()
	header, err := cachefile.Read(file)
	must(t, err)
	return header
}

// lifetime returns for how long the stored response for a path is fresh.
func (s ruledSite) lifetime(t *testing.T, path string) time.Duration {
	t.Helper()
	header := s.stored(t, path)
	return header.ValidUntil.Sub(header.Received)
}

// TestTTL checks how long responses are fresh with cache.ttl and a policy's ttl, and that ignored directives of
// Cache-Control and ignored cookies reach neither the cache nor clients.
func TestTTL(t *testing.T) {
	t.Parallel()
	of := func(d v1alpha1.Duration) *v1alpha1.Duration { return &d }
	rules := v1alpha1.CacheRules{
		StaleWhileRevalidate: "0s", StaleIfError: "0s",
		TTL: []v1alpha1.TTL{
			{Status: []v1alpha1.TTLStatus{200}, Default: of("300s"), Min: of("100s"), Max: of("1000s")},
			{Status: []v1alpha1.TTLStatus{404, 429}, Force: of("50s")},
			{Status: []v1alpha1.TTLStatus{203}, Force: of("0s")},
		},
		Ignore: []v1alpha1.Ignored{v1alpha1.IgnorePrivate, v1alpha1.IgnoreSetCookie, v1alpha1.IgnoreNoStore},
	}
	const untilDate = -1 // the lifetime of an object that is fresh until the date in Expires
	date := func(in time.Duration) string { return nginxtest.Now().Add(in).UTC().Format(http.TimeFormat) }
	inTime := date(500 * time.Second)
	type headers = map[string]string
	tests := map[string]struct {
		status  int
		headers headers
		// want is the lifetime in seconds. control is the Cache-Control that clients get.
		want    int
		control string
	}{
		"none":    {200, nil, 300, ""},
		"short":   {200, headers{"Cache-Control": "max-age=99"}, 100, "max-age=99"},
		"zero":    {200, headers{"Cache-Control": "public, max-age=0"}, 100, "public, max-age=0"},
		"least":   {200, headers{"Cache-Control": "max-age=100"}, 100, "max-age=100"},
		"between": {200, headers{"Cache-Control": "max-age=0567"}, 567, "max-age=0567"},
		"most":    {200, headers{"Cache-Control": "max-age=1000"}, 1000, "max-age=1000"},
		"long":    {200, headers{"Cache-Control": "max-age=1001"}, 1000, "max-age=1001"},
		"longer":  {200, headers{"Cache-Control": "max-age=99999"}, 1000, "max-age=99999"},
		"shared": {
			200, headers{"Cache-Control": "max-age=9999, s-maxage=1"}, 100, "max-age=9999, s-maxage=1",
		},
		"targeted": {
			200, headers{"CDN-Cache-Control": "max-age=5000", "Cache-Control": "max-age=1"}, 1000, "max-age=1",
		},
		"accel":                   {200, headers{"X-Accel-Expires": "5", "Cache-Control": "max-age=500"}, 100, "max-age=500"},
		"long accel":              {200, headers{"X-Accel-Expires": "5000"}, 1000, ""},
		"expires soon":            {200, headers{"Expires": date(20 * time.Second)}, 100, ""},
		"expires":                 {200, headers{"Expires": date(time.Hour)}, 1000, ""},
		"expires in time":         {200, headers{"Expires": inTime}, untilDate, ""},
		"has expired":             {200, headers{"Expires": "Thu, 01 Jan 1970 00:00:10 GMT"}, 100, ""},
		"no date":                 {200, headers{"Expires": "0"}, 100, ""},
		"no-store":                {200, headers{"Cache-Control": "no-store, max-age=500"}, 500, "max-age=500"},
		"No-Store":                {200, headers{"Cache-Control": "max-age=500 , No-Store"}, 500, "max-age=500"},
		"both":                    {200, headers{"Cache-Control": "private,no-store"}, 300, ""},
		"fields":                  {200, headers{"Cache-Control": `private="a, b", max-age=200`}, 200, "max-age=200"},
		"no-cache":                {200, headers{"Cache-Control": "no-cache, private"}, 0, "no-cache"},
		"forced":                  {404, headers{"Cache-Control": "max-age=500"}, 50, "max-age=500"},
		"forced without lifetime": {429, nil, 50, ""},
		"forced, no-cache":        {404, headers{"Cache-Control": "no-cache"}, 0, "no-cache"},
		"forced away":             {203, headers{"Cache-Control": "max-age=500"}, 0, "max-age=500"},
		"other status":            {410, headers{"Cache-Control": "max-age=5000"}, 5000, "max-age=5000"},
		"cookie":                  {200, headers{"Set-Cookie": "a=b"}, 300, ""},
	}
	paths := map[string]string{}
	for name := range tests {
		paths["/ttl/"+strings.NewReplacer(" ", "", ",", "").Replace(name)] = name
	}
	origin := func(w http.ResponseWriter, r *http.Request) {
		tt := tests[paths[r.URL.Path]]
		for name, value := range tt.headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(tt.status)
	}
	for kind, s := range ruledSites(t, rules, origin) {
		for path, name := range paths {
			tt := tests[name]
			for i := range 2 { // the client gets the same from the origin and from the disk
				r, _ := s.get(t, path)
				if got := r.Header.Values("Set-Cookie"); got != nil {
					t.Errorf("%s, %s: the client gets the cookies %q", kind, name, got)
				}
				if got := r.Header.Get("X-Cache"); i == 1 && (got == "HIT") != (tt.want != 0) {
					t.Errorf("%s, %s: the second response is a %s", kind, name, got)
				}
				if got := strings.Join(r.Header.Values("Cache-Control"), "|"); got != tt.control || r.StatusCode != tt.status {
					t.Errorf("%s, %s: status %d, Cache-Control %q, want %q", kind, name, r.StatusCode, got, tt.control)
				}
			}
			if tt.want == 0 {
				continue
			}
			if tt.want == untilDate {
				if got := s.stored(t, path).ValidUntil.UTC().Format(http.TimeFormat); got != inTime {
					t.Errorf("%s, %s: fresh until %s, want %s", kind, name, got, inTime)
				}
				continue
			}
			if got, want := s.lifetime(t, path), time.Duration(tt.want)*time.Second; got != want {
				t.Errorf("%s, %s: fresh for %s, want %s", kind, name, got, want)
			}
		}
		r, _ := s.get(t, "/ttl/both", "Authorization: Basic eDp5")
		if got := r.Header.Get("Cache-Control"); got != "private,no-store" {
			t.Errorf("%s: a request that bypasses the caches gets Cache-Control %q", kind, got)
		}
		r, _ = s.get(t, "/ttl/cookie", "Authorization: Basic eDp5")
		if got := r.Header.Get("Set-Cookie"); got != "a=b" {
			t.Errorf("%s: a request that bypasses the caches gets Set-Cookie %q", kind, got)
		}
	}
}

// TestFailureReplacesNothing checks that a failure with a lifetime by ttl does not replace an expired object, but that
// the answer that the object is gone does.
func TestFailureReplacesNothing(t *testing.T) {
	t.Parallel()
	force := v1alpha1.Duration("60s")
	rules := v1alpha1.CacheRules{
		StaleWhileRevalidate: "0s", StaleIfError: "0s",
		TTL: []v1alpha1.TTL{{Status: []v1alpha1.TTLStatus{200, 404, 429, 500}, Force: &force}},
	}
	var status atomic.Int64
	for kind, s := range ruledSites(t, rules, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}) {
		for path, tt := range map[string]struct{ failure, stored int }{
			"/busy": {429, 200}, "/failing": {500, 200}, "/gone": {404, 404},
		} {
			status.Store(200)
			s.get(t, path)
			expireFiles(t, s.files(path))
			status.Store(int64(tt.failure))
			if r, _ := s.get(t, path); r.StatusCode != tt.failure {
				t.Errorf("%s, %s: status %d", kind, path, r.StatusCode)
			}
			for _, name := range s.files(path) {
				content, err := os.ReadFile(name)
				must(t, err)
				if !strings.Contains(string(content), fmt.Sprintf("HTTP/1.1 %d ", tt.stored)) {
					t.Errorf("%s, %s: the stored response has not the status %d", kind, path, tt.stored)
				}
			}
			if len(s.files(path)) != 1 {
				t.Errorf("%s, %s: the files %q are stored", kind, path, s.files(path))
			}
		}
		status.Store(429) // a failure without an object in its place is stored
		s.get(t, "/new")
		if got := s.lifetime(t, "/new"); got != time.Minute {
			t.Errorf("%s: a failure is fresh for %s", kind, got)
		}
	}
}

// TestPolicyQueryAndBypass checks the arguments that count for a route with a policy, and the requests that bypass the
// caches. Another route on the same pods has no policy.
func TestPolicyQueryAndBypass(t *testing.T) {
	t.Parallel()
	rules := v1alpha1.CacheRules{
		Query:  &v1alpha1.Query{Drop: []v1alpha1.NamePattern{"utm_*"}},
		Bypass: &v1alpha1.Bypass{Cookies: []v1alpha1.NamePattern{"session"}, Headers: []v1alpha1.HeaderName{"X-Preview"}},
	}
	in := decode(t, []byte(threeDisks))
	id := routes.PolicyID(rules)
	in.Routes = twoTeams()
	in.Routes.Policies = map[string]v1alpha1.CacheRules{id: rules}
	in.Routes.Routes[0].Rules[0].Policy = id
	config, err := cache.Render(in)
	must(t, err)
	n := nginxtest.New(t)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	for _, address := range []string{"127.0.0.1:9001", "127.0.0.1:9002"} {
		n.Serve(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			_, _ = fmt.Fprint(w, r.RequestURI)
		}))
	}
	n.Start()
	const red, blue = "red.example.com", "blue.example.com"
	for i, tt := range []struct{ host, path, header, want string }{
		{red, "/a%2Fb?x=1&utm_source=z", "", "MISS /a%2Fb?x=1"},
		{red, "/a%2Fb?utm_medium=y&x=1", "", "HIT /a%2Fb?x=1"},
		{red, "/a%2Fb?x=1", "Cookie: session=1", "BYPASS /a%2Fb?x=1"},
		{red, "/a%2Fb?x=1&utm_source=z", "X-Preview: 1", "BYPASS /a%2Fb?x=1&utm_source=z"},
		{red, "/a%2Fb?x=1", "Cookie: other=1", "HIT /a%2Fb?x=1"},
		{blue, "/shared?x=1&utm_source=z", "Cookie: session=1", "MISS /shared?x=1&utm_source=z"},
		{blue, "/shared?x=1&utm_source=z&", "", "MISS /shared?x=1&utm_source=z&"},
		{blue, "/shared?x=1&utm_source=z", "X-Preview: 1", "HIT /shared?x=1&utm_source=z"},
		{blue, "/shared", "", "MISS /shared"},
		{blue, "/shared?", "", "MISS /shared?"},
	} {
		headers := []string{tt.header}
		if tt.header == "" {
			headers = nil
		}
		r, body := send(t, n.Client(), http.MethodGet, tt.host, "http://127.0.0.1:20000"+tt.path, headers...)
		if got := r.Header.Get("X-Cache") + " " + body; got != tt.want {
			t.Errorf("%d: %s, want %s", i, got, tt.want)
		}
	}
}
