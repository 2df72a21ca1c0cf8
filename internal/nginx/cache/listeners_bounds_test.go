package cache_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestEveryListenerIsBounded lists the sockets that nginx opens, and checks that each server on one that is reached
// from outside the pod has time-outs for incomplete requests.
func TestEveryListenerIsBounded(t *testing.T) {
	t.Parallel()
	known := []string{
		"127.0.0.1:8086", "127.0.0.1:8087", "8080", "8081", "8088", "8089", "8443", "9080", "9443",
		"unix:/run/cachenode/gateway.sock",
	}
	var seen []string
	for golden, file := range goldenFiles(t) {
		text, err := os.ReadFile(file)
		must(t, err)
		config, err := cache.Render(decode(t, text))
		must(t, err)
		for _, http := range parse(t, config.Text) {
			for _, server := range http.block {
				if server.words[0] != "server" {
					continue
				}
				has := map[string]bool{}
				var addresses []string
				for _, s := range server.block {
					has[s.words[0]] = true
					if s.words[0] == "listen" {
						addresses = append(addresses, s.words[1])
					}
				}
				seen = append(seen, addresses...)
				isPrivate := strings.HasPrefix(addresses[0], "unix:") || strings.HasPrefix(addresses[0], "127.0.0.1:")
				for _, name := range []string{"client_header_timeout", "client_body_timeout"} {
					if !isPrivate && !has[name] {
						t.Errorf("%s: the server on %q has no %s", filepath.Base(golden), addresses, name)
					}
				}
			}
		}
	}
	slices.Sort(seen)
	if diff := cmp.Diff(known, slices.Compact(seen)); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}
