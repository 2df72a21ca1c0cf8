package cache_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestKey sends awkward URIs to the real nginx. Each response must lie on the disk and at the path that follow from its
// key.
func TestKey(t *testing.T) {
	for name, parts := range map[string][]v1alpha1.KeyPart{
		"as sent":    {v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
		"normalized": {v1alpha1.KeyMethod, v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyURI, v1alpha1.KeyArgs},
	} {
		t.Run(name, func(t *testing.T) {
			n := nginxtest.New(t)
			in := decode(t, []byte(threeDisks))
			in.Spec.Cache.Key = parts
			config, err := cache.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			n.Configure(config.Text, "disk1", "disk2", "disk3")
			var count atomic.Int64
			n.Serve("127.0.0.1:9000", origin(&count))
			n.Start()
			tree := config.Plan.Tree()
			for _, uri := range []string{
				"/", "/a", "/a/", "/a//b", "/a/./b", "/a/../b/c", "/a/b/..", "/a/b/.", "/a%20b", "/%61?x=1&y=%20", "/a?",
				"/ü", "/a%2Fb", "/..a/b..", "/a?b=c", "/a%3Fb=c", "/a%3Fb", "/a%3F?b=c", "/a%3F?", "/a%20?b=c",
				"/a%3F%20?b=c",
			} {
				keyOf := func(uri string) string {
					request := cachekey.Request{Method: "GET", Scheme: "http", Host: "WWW.example.com", URI: uri}
					return cachekey.Of(in.Spec.Cache, request).String()
				}
				key := keyOf(uri)
				want := tree.Owner([]byte(key))
				response, _ := get(t, n.Client(), "WWW.example.com", uri)
				sent := response.Request.URL.RequestURI() // Go's client encodes some URIs
				if sent != uri {
					key = keyOf(sent)
					want = tree.Owner([]byte(key))
				}
				if got := response.Header.Get("X-Cache-Disk"); got != want {
					t.Errorf("%s is on %s, want %s for key %q", uri, got, want, key)
				}
				content, err := os.ReadFile(n.Root + cachekey.OnDisk(want, key))
				if err != nil || !strings.Contains(string(content), "KEY: "+key+"\n") {
					t.Errorf("%s: no file with key %q where it should be: %v", uri, key, err)
				}
			}
		})
	}
}
