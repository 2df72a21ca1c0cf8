package cache_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestClientLimit checks that a client address can have the allowed number of concurrent requests, and that it does not
// hold up another address. The limit on requests that no disk can serve applies too.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	in.Spec.Listen.MaxConnectionsPerClient, in.Spec.Origin.FallbackConcurrency = new(int32(3)), new(int32(2))
	in.Facts.Cores = 2
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, "origin")
	}))
	n.Start()

	// hold starts the given number of requests of a client, and waits until the origin has got each of them. It returns a
	// channel for the statuses of the responses.
	objects := 0
	hold := func(client string, count int) (statuses chan string) {
		statuses = make(chan string, count)
		for range count {
			objects++
			path := fmt.Sprintf("/%d", objects)
			go func() { statuses <- from(t, n, client, path) }()
			await.True(t, "the origin is not asked for "+path, func() bool {
				select {
				case <-asked:
				case status := <-statuses:
					t.Errorf("%s of %s is answered with %s", path, client, status)
				default:
					return false
				}
				return true
			})
		}
		return statuses
	}
	release := func(statuses ...chan string) {
		close(answer)
		for _, s := range statuses {
			for range cap(s) {
				if got := <-s; got != "200" {
					t.Errorf("a request that was under way is answered with %s", got)
				}
			}
		}
		answer = make(chan struct{})
	}

	first := hold("127.0.0.1", 3)
	if got := from(t, n, "127.0.0.1", "/too-many"); got != "429" {
		t.Errorf("one more of the same client is answered with %s, want 429", got)
	}
	second := hold("127.0.0.2", 1)
	release(first, second)

	for _, disk := range []string{"disk1", "disk2", "disk3"} { // as if the disks were dead
		if err := os.RemoveAll(n.Root + layout.CacheDir(disk)); err != nil {
			t.Fatal(err)
		}
	}
	first = hold("127.0.0.1", 2)
	if got := from(t, n, "127.0.0.2", "/uncached"); got != "503 Retry-After" {
		t.Errorf("one more that no disk can serve is answered with %s, want 503 with Retry-After", got)
	}
	release(first)
	rejected := func(report string) bool {
		return strings.Contains(report, agentapi.TagUncached+":") && strings.Contains(report, " 503 ")
	}
	becomes(t, "nginx has told the agent", func() string {
		if reports := n.Reports(); !slices.ContainsFunc(reports, rejected) {
			return fmt.Sprintf("nginx has sent the agent %q", reports)
		}
		return "nginx has told the agent"
	})
}

// from sends a request from an address of the loopback device. It returns the status, and whether there is a
// Retry-After.
func from(t *testing.T, n *nginxtest.Nginx, address, path string) string {
	client := n.ClientFrom(net.ParseIP(address))
	defer client.CloseIdleConnections()
	response, _ := get(t, client, "www.example.com", path)
	if response.Header.Get("Retry-After") != "" {
		return fmt.Sprint(response.StatusCode, " Retry-After")
	}
	return fmt.Sprint(response.StatusCode)
}
