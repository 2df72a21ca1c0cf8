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
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// TestLongestPolicies checks that nginx accepts many policies with the longest names that the API server accepts.
func TestLongestPolicies(t *testing.T) {
	t.Parallel()
	in := decode(t, []byte(threeDisks))
	in.Routes = twoTeams()
	in.Routes.Policies = map[string]v1alpha1.CacheRules{}
	of := in.Routes.Routes[0].Rules[0]
	for i := range 120 {
		var names []v1alpha1.NamePattern
		count, length := 16, 64
		if i%2 == 0 {
			count, length = 32, 32
		}
		for j := range count {
			own := fmt.Sprintf("%03d%02d", i, j)
			names = append(names, v1alpha1.NamePattern(own+strings.Repeat([]string{".", "["}[i%2], length-len(own)-1)+"*"))
		}
		rules := v1alpha1.CacheRules{
			Query: &v1alpha1.Query{Drop: names}, Bypass: &v1alpha1.Bypass{Cookies: names[:16]},
			Ignore: []v1alpha1.Ignored{"Private", "NoStore", "NoCache", "SetCookie"},
		}
		if i%3 == 0 {
			rules.Query = &v1alpha1.Query{Keep: names}
		}
		rule := of
		rule.Policy = routes.PolicyID(rules)
		in.Routes.Policies[rule.Policy] = rules
		rule.Matches = []routes.Match{{Path: routes.Path{Value: fmt.Sprint("/", i)}}}
		in.Routes.Routes[0].Rules = append(in.Routes.Routes[0].Rules, rule)
	}
	config, err := cache.Render(in)
	must(t, err)
	n := nginxtest.New(t)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	if output, err := n.Test(); err != nil {
		t.Errorf("nginx -t: %v\n%.2000s", err, output)
	}
}

// TestFilledLifetime checks that a copy from another disk is fresh for some seconds only, whatever lifetime ttl has
// given the object.
func TestFilledLifetime(t *testing.T) {
	t.Parallel()
	const ttl = "  cache: {ttl: [{status: [200], force: 27h}]}\n"
	p := newPods(t, 1, strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)+ttl)
	p.reconfigure(t, fleet.Of(1))
	path := func(i int) string { return fmt.Sprint("/small/", i) }
	for i := range 20 {
		ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path(i))
	}
	p.yaml = threeDisks + ttl
	p.reconfigure(t, aDiskMore())
	moved := 0
	for i := range 20 {
		r, _ := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path(i))
		if r.Header.Get("X-Cache-Disk") != "disk3" {
			continue
		}
		moved++
		file, err := os.Open(p.nginx[0].Cached("http://www.example.com"+path(i), "disk3")[0])
		must(t, err)
		header, err := cachefile.Read(file)
		must(t, err)
		must(t, file.Close())
		if got := header.ValidUntil.Sub(header.Received); got > 10*time.Minute {
			t.Errorf("%s: the copy is fresh for %s", path(i), got)
		}
	}
	if moved == 0 {
		t.Error("no object has moved")
	}
}

// TestRaisedLifetime checks that an object whose lifetime was raised is served stale, as any other.
func TestRaisedLifetime(t *testing.T) {
	t.Parallel()
	least := v1alpha1.Duration("100s")
	rules := v1alpha1.CacheRules{
		StaleWhileRevalidate: "0s", StaleIfError: "24h",
		TTL: []v1alpha1.TTL{{Status: []v1alpha1.TTLStatus{200}, Min: &least}},
	}
	for kind, s := range ruledSites(t, rules, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		if r.Header.Get("X-Fails") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}) {
		s.get(t, "/raised")
		expireFiles(t, s.files("/raised"))
		r, _ := s.get(t, "/raised", "X-Fails: 1")
		if got := fmt.Sprint(r.StatusCode, r.Header.Get("X-Cache")); got != "200STALE" {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// TestFailedPost checks that ttl does not store a failure in the place of an expired response to POST.
func TestFailedPost(t *testing.T) {
	t.Parallel()
	force := v1alpha1.Duration("100s")
	var status atomic.Int64
	status.Store(http.StatusOK)
	n := start(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) },
		func(spec *v1alpha1.CacheNodeSpec) {
			spec.Cache.Methods = []v1alpha1.CacheMethod{"GET", "HEAD", "POST"}
			spec.Cache.Key = []v1alpha1.KeyPart{v1alpha1.KeyMethod, v1alpha1.KeyHost, v1alpha1.KeyRequestURI}
			spec.Cache.TTL = []v1alpha1.TTL{{Status: []v1alpha1.TTLStatus{200, 429}, Force: &force}}
		})
	post := func() string {
		r, _ := ask(t, n.Client(), http.MethodPost, "http://127.0.0.1:8080/post")
		return fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Cache"))
	}
	post()
	if got := post(); got != "200 HIT" {
		t.Fatalf("before it expires: %s", got)
	}
	expire(t, n, "POST www.example.com/post")
	status.Store(http.StatusTooManyRequests)
	for range 2 {
		if got := post(); got != "429 EXPIRED" {
			t.Errorf("after a failure: %s, want 429 EXPIRED", got)
		}
	}
}
