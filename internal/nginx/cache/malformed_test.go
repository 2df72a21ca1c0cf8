package cache_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// exchange sends raw requests over one connection, and returns the status of each response.
func exchange(t *testing.T, n *nginxtest.Nginx, address string, requests ...string) (statuses []int, bodies []string) {
	t.Helper()
	connection, err := n.Dial(address)
	must(t, err)
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReader(connection)
	for _, request := range requests {
		_, err := io.WriteString(connection, request)
		must(t, err)
		r, err := http.ReadResponse(reader, nil)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		must(t, err)
		statuses, bodies = append(statuses, r.StatusCode), append(bodies, string(body))
	}
	return statuses, bodies
}

// TestControlCharacters checks that every server refuses a path whose decoded form contains control characters.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	p := newPods(t, 2, sharded(nginxtest.MemoryTier("minUses: 100")))
	for name, address := range map[string]string{
		"clients": "127.0.0.1:8080", "private": "127.0.0.1:8081",
		"lookups": fmt.Sprintf("127.0.0.1:%d", layout.LookupPort), "peers": fmt.Sprintf("127.0.0.1:%d", layout.PeerPort),
		"promoter": "nginx-promoter.sock:80", "disks": "nginx-disks.sock:80", "gateway": "nginx-gateway.sock:80",
	} {
		for _, path := range []string{"/a%0d%0ab", "/a%0A", "/%7f", "/%01", "/%1F/../a%09"} {
			request := "GET " + path + " HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
			if got, _ := exchange(t, p.nginx[0], address, request); got[0] != http.StatusBadRequest {
				t.Errorf("%s: %s gets %d", name, path, got[0])
			}
		}
	}
	for _, path := range []string{"/%20", "/a?x=%0d%0a", "/%c3%bc", "/%7e"} {
		request := "GET " + path + " HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
		if got, _ := exchange(t, p.nginx[0], "127.0.0.1:8080", request); got[0] != http.StatusOK {
			t.Errorf("%s gets %d", path, got[0])
		}
	}
}

// TestKeyAndRequestLineAgree checks that requests with the same key reach the origin with the same URI.
func TestKeyAndRequestLineAgree(t *testing.T) {
	t.Parallel()
	const uri, requestURI = "key: [Scheme, Host, URI, Args]", "key: [Scheme, Host, RequestURI]"
	for name, tt := range map[string]struct {
		policy string
		// paths are different texts, but all of them have the same key.
		paths []string
		// want is the URI that the origin gets for each path; "" if nginx answers with 400.
		want string
	}{
		"a raw backslash":   {uri, []string{`/a\b`, "/a%5Cb", "/a%5cb"}, "/a%5Cb"},
		"raw quotes":        {uri, []string{`/"x"`, "/%22x%22"}, "/%22x%22"},
		"a raw pipe":        {uri, []string{"/a|b", "/a%7Cb"}, "/a%7Cb"},
		"eight bits":        {uri, []string{"/\xc3\xbc", "/%C3%BC", "/%c3%bc"}, "/%C3%BC"},
		"slashes":           {uri, []string{"/a//b", "/a/./b", "/a/c/../b", "/a%2Fb"}, "/a/b"},
		"no path":           {requestURI, []string{"http://www.example.com?x=1"}, ""},
		"no path, decoded":  {uri, []string{"http://www.example.com?x=1"}, ""},
		"no path, filtered": {requestURI + ", query: {drop: [x]}", []string{"http://www.example.com?x=1"}, ""},
		"an absolute form":  {requestURI, []string{"http://www.example.com/?x=1", "/?x=1"}, "/?x=1"},
		"the shortest form": {requestURI, []string{"http://www.example.com", "/"}, "/"},
	} {
		for routing, more := range map[string]string{
			"Local": "", "a memory tier": nginxtest.MemoryTier("minUses: 1"),
			"Sharded": "  routing: {mode: Sharded, tls: \"Off\"}\n",
		} {
			if strings.Contains(tt.policy, uri) && routing == "a memory tier" {
				continue // there is no memory tier with URI in the key
			}
			t.Run(name+", "+routing, func(t *testing.T) {
				t.Parallel()
				var mutex sync.Mutex
				var seen []string
				in := decode(t, []byte(threeDisks+"  cache: {"+tt.policy+"}\n"+more))
				config, err := cache.Render(in)
				must(t, err)
				n := nginxtest.New(t)
				n.Configure(config.Text, "disk1", "disk2", "disk3")
				n.Mkdir(layout.MemoryTierDir)
				n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mutex.Lock()
					defer mutex.Unlock()
					seen = append(seen, r.RequestURI)
					w.Header().Set("Cache-Control", "no-store") // so that each request reaches the origin
				}))
				n.Start()
				for _, path := range tt.paths {
					status, _ := exchange(t, n, "127.0.0.1:8080", "GET "+path+" HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
					if wants := tt.want != ""; (status[0] == http.StatusOK) != wants || !wants && status[0] != http.StatusBadRequest {
						t.Errorf("%s: %d", path, status[0])
					}
				}
				var want []string
				if tt.want != "" {
					want = append(want, tt.want)
				}
				mutex.Lock()
				defer mutex.Unlock()
				if diff := cmp.Diff(want, slices.Compact(seen)); diff != "" {
					t.Errorf("the origin got (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestSmuggling makes a client send a second request in the path of a first one, while keys move between disks. Other
// clients get their own objects, and the origin sees no header of the attacker's choice.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	const policy = "  cache: {key: [Host, URI]}\n"
	p := newPods(t, 1, two+policy)
	p.yaml = threeDisks + policy
	p.take(t, 0, aDiskMore())
	var hosts []string
	p.answers(func(_ http.ResponseWriter, r *http.Request) bool {
		hosts = append(hosts, r.Host+r.Header.Get("X-Original-URL"))
		return false
	})
	const attack = "/q%d%%0d%%0a%%0d%%0aGET%%20/slow-page%%20HTTP/1.1%%0d%%0aHost:%%20evil.example%%0d%%0a" +
		"X-Original-URL:%%20/admin%%0d%%0aX-A:%%20"
	var attacks sync.WaitGroup
	for i := range 30 {
		attacks.Go(func() {
			request := "GET " + fmt.Sprintf(attack, i) + " HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
			if got, _ := exchange(t, p.nginx[0], "127.0.0.1:8080", request); got[0] != http.StatusBadRequest {
				t.Errorf("attack %d gets %d", i, got[0])
			}
		})
	}
	for i := range 120 {
		p.get(t, 0, fmt.Sprintf("/victim-%d", i)) // checks the body
	}
	attacks.Wait()
	p.locked(func() {
		if got := slices.Compact(hosts); !slices.Equal(got, []string{"www.example.com"}) {
			t.Errorf("the origin was asked for %q", got)
		}
	})
}
